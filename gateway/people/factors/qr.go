package factors

import (
	"fmt"
	"image/color"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// quietZone is the width of the white margin of a QR code, in modules (ISO/IEC 18004).
const quietZone = 4

// QRCode returns an SVG image of the QR code of a text. It is black on white, with its
// margin, whatever the colours of the page are: scanners need the contrast. It has no
// scripts, styles or links.
func QRCode(text string) (svg string, err error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return "", fmt.Errorf("making a QR code: %w", err)
	}
	size := code.Bounds().Dx()
	var path strings.Builder
	for y := range size {
		for x := range size {
			if code.At(x, y) == color.Black {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x+quietZone, y+quietZone)
			}
		}
	}
	side := size + 2*quietZone
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[1]d" `+
		`shape-rendering="crispEdges"><rect width="%[1]d" height="%[1]d" fill="#fff"/>`+
		`<path fill="#000" d="%[2]s"/></svg>`, side, path.String()), nil
}
