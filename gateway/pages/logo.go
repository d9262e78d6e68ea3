package pages

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
)

// Logo is an image. Without Content there is none.
type Logo struct {
	MediaType string // image/png or image/svg+xml
	Content   []byte
}

// ReadLogo returns the logo with this content. The error tells that it is no PNG or SVG
// image.
func ReadLogo(content []byte) (Logo, error) {
	if bytes.HasPrefix(content, []byte("\x89PNG")) {
		_, err := png.DecodeConfig(bytes.NewReader(content))
		return Logo{"image/png", content}, err
	}
	return Logo{"image/svg+xml", content}, checkSVG(content)
}

// checkSVG checks that an XML document is well-formed and an SVG image. Browsers
// show no other document as an image.
func checkSVG(content []byte) error {
	const namespace = "http://www.w3.org/2000/svg"
	d := xml.NewDecoder(bytes.NewReader(content))
	root := false
	for {
		token, err := d.Token()
		switch {
		case err == io.EOF && root:
			return nil
		case err == io.EOF:
			return errors.New("it has no element svg")
		case err != nil:
			return err
		}
		if element, ok := token.(xml.StartElement); ok && !root {
			if element.Name.Local != "svg" || element.Name.Space != namespace {
				return fmt.Errorf("its first element is %s; expected svg with xmlns=%q", element.Name.Local, namespace)
			}
			root = true
		}
	}
}
