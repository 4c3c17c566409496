//go:build publishwasm

package templates

import _ "embed"

// Both files are made by .ci/build, which shows them to the compiler by -overlay: they are nowhere in this folder.

//go:embed publish.wasm.gz
var builtWASM []byte

//go:embed wasm_exec.js
var builtExec []byte

// built is the program that this build has.
func built() Program { return Program{WASM: builtWASM, Exec: builtExec} }
