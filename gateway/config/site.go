package config

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/pages"
)

// Bounds of the section site.
const (
	maxSiteTitle = 100 // characters
	maxSiteHelp  = 1000
	maxLogoSize  = 256 << 10 // bytes; the logo is part of each page
)

// site configures what users see on the gateway's pages.
type site struct {
	Title  string `yaml:"title"`
	Logo   string `yaml:"logo"`   // file, PNG or SVG
	Accent string `yaml:"accent"` // #rgb or #rrggbb; empty: the default
	Help   string `yaml:"help"`   // a text, or an https: or mailto: URL

	LogoType    string `yaml:"-"` // the media type of Logo
	LogoContent []byte `yaml:"-"`
}

// Pages returns the options of the gateway's pages.
func (s site) Pages() pages.Options {
	return pages.Options{
		Title: s.Title, Accent: s.Accent, Help: s.Help,
		Logo: pages.Logo{MediaType: s.LogoType, Content: s.LogoContent},
	}
}

// check checks everything except the logo, which sideReader.logo checks.
func (s site) check(r *report) {
	checkShown(r, "site.title", s.Title, maxSiteTitle)
	checkShown(r, "site.help", s.Help, maxSiteHelp)
	if s.Accent != "" {
		if err := pages.CheckColour(s.Accent); err != nil {
			r.Fault("site.accent", "%v", err)
		}
	}
	if err := checkHelp(s.Help); err != nil {
		r.Fault("site.help", "%v", err)
	}
}

// checkShown checks a text for users.
func checkShown(r *report, path, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		r.Fault(path, "has %d characters; at most %d fit on a page", n, most)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		r.Fault(path, "contains a control character or a line break")
	}
}

// checkHelp checks the URL in site.help. What does not begin like a URL is a text.
func checkHelp(help string) error {
	scheme, _, found := strings.Cut(help, ":")
	if !found {
		return nil
	}
	switch strings.ToLower(scheme) {
	case "https":
		if u, err := url.Parse(help); err != nil || u.Host == "" || scheme != "https" {
			return fmt.Errorf("%q is not a URL; expected one like https://help.example.org/", help)
		}
	case "mailto":
		address, _, _ := strings.Cut(help, "?")
		if scheme != "mailto" || strings.Count(address, "@") != 1 || strings.ContainsAny(help, " ,") {
			return fmt.Errorf("%q is not a mailto: URL with one address; expected one like mailto:help@example.org", help)
		}
	case "http", "javascript", "data", "file", "ftp":
		return fmt.Errorf("%q is a link that pages cannot have; expected a text, or an https: or mailto: URL", help)
	}
	return nil
}

// logo reads the logo, and checks that it is an image.
func (s sideReader) logo(site *site) {
	if site.Logo == "" {
		return
	}
	content, ok := s.read("site.logo", site.Logo, maxLogoSize)
	if !ok {
		return
	}
	var err error
	if site.LogoType, err = logoType(content); err != nil {
		s.main.Fault("site.logo", "%s is no PNG or SVG image: %v", site.Logo, err)
	}
	site.LogoContent = content
}

// logoType returns the media type of an image.
func logoType(content []byte) (string, error) {
	if bytes.HasPrefix(content, []byte("\x89PNG")) {
		_, err := png.DecodeConfig(bytes.NewReader(content))
		return "image/png", err
	}
	return "image/svg+xml", checkSVG(content)
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
