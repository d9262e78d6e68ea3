package pages

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"
)

func TestReadLogo(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	const svg = `<svg xmlns="http://www.w3.org/2000/svg"/>`
	for content, want := range map[string]string{
		picture.String():      "image/png",
		picture.String()[:12]: "",
		svg:                   "image/svg+xml",
		"<?xml version=\"1.0\"?>\n<!-- x -->" + svg: "image/svg+xml",
		`<svg/>`: "",
		`<html><svg xmlns="http://www.w3.org/2000/svg"/></html>`: "",
		strings.Replace(svg, "/>", ">", 1):                       "",
		"":                                                       "",
		"GIF89a":                                                 "",
	} {
		got, err := ReadLogo([]byte(content))
		if want == "" && err == nil || want != "" && (err != nil || got.MediaType != want || string(got.Content) != content) {
			t.Errorf("%q is %q (%v), want %q", content, got.MediaType, err, want)
		}
	}
}
