package site_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/picture"
	"github.com/cairn-id/cairn/store/accounttest"
)

func smallPicture(t testing.TB, shade uint8) []byte {
	t.Helper()
	var file bytes.Buffer
	square := image.NewGray(image.Rect(0, 0, 9, 9))
	square.Set(4, 4, color.Gray{shade})
	must(t, png.Encode(&file, square))
	return file.Bytes()
}

func uploadPicture(b *accounttest.Browser, field string, content []byte) *accounttest.Answer {
	b.W.T.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile(field, "me.png")
	if err == nil {
		_, err = part.Write(content)
	}
	if err != nil || form.Close() != nil {
		b.W.T.Fatal(err)
	}
	return b.Send("POST", "/account/picture", form.FormDataContentType(), body.String(), "Accept", "text/html")
}

// readerFunc is a body that something happens in.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Whoever has a picture under way cannot send another: their files would fill the memory.
func TestSecondPictureUnderWayIsRefusedUnread(t *testing.T) {
	w := accounttest.With(t, "ada", "bob")
	ada, bob := w.SignedIn("ada"), w.SignedIn("bob")
	const boundary = "xxx"
	head := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"picture\"; filename=\"me.png\"\r\n\r\n"
	meanwhile := readerFunc(func([]byte) (int, error) {
		busy := uploadPicture(ada, "picture", smallPicture(t, 1)).Is(429) // not an error of the service
		same(t, "Retry-After", busy.Header.Get("Retry-After"), "2")
		uploadPicture(bob, "picture", smallPicture(t, 2)).Is(303)
		return 0, io.EOF
	})
	body := io.MultiReader(strings.NewReader(head), bytes.NewReader(smallPicture(t, 3)), meanwhile,
		strings.NewReader("\r\n--"+boundary+"--\r\n"))
	ada.Stream("POST", "/account/picture", "multipart/form-data; boundary="+boundary, body).Is(303)
	uploadPicture(ada, "picture", smallPicture(t, 4)).Is(303)
}

// A picture is there for whoever has its address, as long as it is the picture of an account that is neither suspended nor deleted.
func TestUploadedPictureIsServedUntilItIsReplaced(t *testing.T) {
	w := accounttest.With(t, "ada")
	b, stranger := w.SignedIn("ada"), w.Browser()
	shade := uint8(0)
	upload := func() (path, served string) {
		t.Helper()
		shade += 40
		uploadPicture(b, "picture", append(smallPicture(t, shade), "<script>"...)).RedirectsTo("/account/profile?notice=picture-set#photo")
		address, _ := b.Call("GET", "/api/me", nil).Is(200).JSON()["picture"].(string)
		path, ours := strings.CutPrefix(address, "http://localhost:4040")
		got := stranger.Call("GET", path, nil).Is(200)
		if !ours || got.Header.Get("Content-Type") != "image/jpeg" ||
			got.Header.Get("Cache-Control") != "public, max-age=86400" ||
			got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", address, got.Header)
		}
		b.Page("/account/profile").Shows(`src="`+path+`"`, "Remove my picture")
		return path, got.Body
	}
	first, _ := upload()
	second, served := upload()
	stranger.Call("GET", first, nil).Is(404)
	w.AddUser("bob")
	uploadPicture(w.SignedIn("bob"), "picture", smallPicture(t, shade)).Is(303)
	stranger.Call("GET", second, nil).Is(200) // the address does not follow from the picture
	lacks(t, "something of the file is left", served, "<script>")
	export := b.Call("GET", "/api/me/export", nil).Is(200).JSON()
	if export["picture_jpeg"] != base64.StdEncoding.EncodeToString([]byte(served)) {
		t.Errorf("the export has %.40v", export["picture_jpeg"])
	}
	uploadPicture(b, "picture", []byte("<svg/>")).Is(400).Shows("must be a PNG, JPEG or WebP", `id="picture-file"`)
	uploadPicture(b, "picture", []byte("\xff\xd8\xff\xd0\x00\x00")).Is(400) // a restart marker, and no segment
	uploadPicture(b, "other", []byte("x")).Is(400)
	uploadPicture(b, "picture", make([]byte, picture.MaxFile+8<<10)).Is(400).Shows("at most 4 MiB")
	stranger.Call("GET", second, nil).Is(200)
	b.Call("PATCH", "/api/me", map[string]string{"picture": "https://elsewhere.example/me.jpg"}).Is(200)
	b.Page("/account/profile").Is(200).Hides("Remove my picture")
	stranger.Call("GET", second, nil).Is(404)
	third, _ := upload()
	b.Page("/account/picture/remove", "x", "y").RedirectsTo("/account/profile?notice=picture-removed#photo")
	stranger.Call("GET", third, nil).Is(404)
	b.Page("/account/profile").Hides("Remove my picture")
	fourth, _ := upload()
	w.Suspend("ada")
	stranger.Call("GET", fourth, nil).Is(404)
	if uploadPicture(stranger, "picture", nil).Status == 200 {
		t.Error("a stranger uploaded a picture")
	}
}
