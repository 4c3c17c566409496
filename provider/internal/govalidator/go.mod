// What fosite uses of github.com/asaskevich/govalidator, and nothing else of
// it: the go.mod of the repository puts this module in the place of the real
// one, and says why.
module github.com/asaskevich/govalidator

go 1.26.0
