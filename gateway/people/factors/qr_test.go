package factors

import (
	"encoding/xml"
	"image"
	"image/color"
	"image/draw"
	"regexp"
	"strconv"
	"strings"
	"testing"

	decoder "github.com/piglig/go-qr"

	"authgate/internal/test/must"
)

// TestQRCode checks that another program reads the text from the image, and that the image
// brings its white background and margin.
func TestQRCode(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		NewSecret().URI("auth.example.org", "alice"),
		NewSecret().URI(strings.Repeat("Überlänge ", 10), strings.Repeat("ä", 64)),
		"A", "0123456789",
	} {
		svg := must.Get(QRCode(text))(t)
		if got, err := decoder.Decode(rendered(t, svg)); err != nil || got != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
	if svg, err := QRCode(strings.Repeat("x", 10_000)); err == nil {
		t.Errorf("a text that is too long makes an image of %d bytes", len(svg))
	}
}

// rendered draws the SVG of a QR code, on a page that is black.
func rendered(t *testing.T, svg string) image.Image {
	t.Helper()
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Fatal(err)
	}
	const scale = 4
	square := func(canvas *image.Gray, x, y, side int, c color.Color) {
		r := image.Rect(x*scale, y*scale, (x+side)*scale, (y+side)*scale)
		draw.Draw(canvas, r, image.NewUniform(c), image.Point{}, draw.Src)
	}
	number := func(text string) int { return must.Get(strconv.Atoi(text))(t) }
	background := regexp.MustCompile(`viewBox="0 0 (\d+) (\d+)".*<rect width="(\d+)" height="(\d+)" fill="#fff"/>`)
	rect := background.FindStringSubmatch(svg)
	if rect == nil || rect[1] != rect[2] || rect[1] != rect[3] || rect[1] != rect[4] {
		t.Fatalf("no white square fills the image: %.200s", svg)
	}
	side := number(rect[1])
	canvas := image.NewGray(image.Rect(0, 0, side*scale, side*scale))
	square(canvas, 0, 0, side, color.White)
	for _, module := range regexp.MustCompile(`M(\d+) (\d+)h1v1h-1z`).FindAllStringSubmatch(svg, -1) {
		x, y := number(module[1]), number(module[2])
		if min(x, y) < 4 || max(x, y) >= side-4 {
			t.Fatalf("the module at %d, %d is in the margin", x, y)
		}
		square(canvas, x, y, 1, color.Black)
	}
	return canvas
}
