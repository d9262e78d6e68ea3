package config

import (
	"fmt"
	"net/url"
	"strings"

	"authgate/gateway/pages"
)

// maxLogoSize is how large an image may be, in bytes; it is part of each page.
const maxLogoSize = 256 << 10

// site configures what users see on the gateway's pages.
type site struct {
	Title  string `yaml:"title" max:"100" why:" fit on a page" check:"text"`
	Logo   string `yaml:"logo" file:"public"`                                     // file, PNG or SVG
	Accent string `yaml:"accent" check:"colour"`                                  // #rgb or #rrggbb; empty: the default
	Help   string `yaml:"help" max:"1000" why:" fit on a page" check:"text help"` // a text, or an https: or mailto: URL
	Texts  string `yaml:"texts" file:"public"`                                    // file, by language and name

	Image pages.Logo  `yaml:"-"` // in the file Logo
	Own   pages.Texts `yaml:"-"` // in the file Texts
}

// Pages returns the options of the gateway's pages.
func (s site) Pages() pages.Options {
	return pages.Options{Title: s.Title, Accent: s.Accent, Help: s.Help, Logo: s.Image, Texts: s.Own}
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
			return fmt.Errorf("%q is not a mailto: URL with one address; expected one like "+
				"mailto:help@example.org", help)
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
	content, ok := s.Read("site.logo", site.Logo, maxLogoSize)
	if !ok {
		return
	}
	var err error
	if site.Image, err = pages.ReadLogo(content); err != nil {
		s.Main.Fault("site.logo", "%s is no PNG or SVG image: %v", site.Logo, err)
	}
}
