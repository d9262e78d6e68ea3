package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"authgate/gateway/config/section"
	"authgate/gateway/pages"
	"authgate/policy"
)

// App puts a route on the start page.
type App struct {
	Title       string `yaml:"title" max:"100" why:" fit on a page" check:"text"`
	Description string `yaml:"description" max:"300" why:" fit on a page" check:"text"`
	Icon        string `yaml:"icon" file:"public"` // file, PNG or SVG
	URL         string `yaml:"url" check:"link"`   // empty: Place

	Image pages.Logo   `yaml:"-"` // in the file Icon
	Place policy.Place `yaml:"-"` // of the route
}

// EndpointApps is the name of the endpoint that lists applications, and EndpointIcon that of
// their icons.
const (
	EndpointApps = "account/apps"
	EndpointIcon = "account/apps/icon"
)

// HasApps reports whether the start page has applications.
func (c *Config) HasApps() bool {
	return slices.ContainsFunc(c.Routes, func(r Route) bool { return r.App != nil })
}

// StartPage returns where users find their applications, whatever routes there are; empty without
// applications.
func (c *Config) StartPage() string {
	if !c.HasApps() {
		return ""
	}
	return c.PublicURL.String() + c.Endpoints.Prefix + EndpointApps
}

// checkApp checks the section app of the route at path, except the icon, which
// sideReader.icons checks.
func (route *Route) checkApp(r *section.Report, path string) {
	app := route.App
	if app == nil {
		return
	}
	if strings.TrimSpace(app.Title) == "" {
		r.Missing(path+".title", "a title is needed, which the start page shows")
	}
	if place, ok := policy.PlaceOf(route.Match); ok {
		app.Place = place
		route.checkPlace(r, path)
	}
}

// checkPlace checks that users can open the application at path.
func (route *Route) checkPlace(r *section.Report, path string) {
	place := route.App.Place
	switch {
	case place.Method != "" && place.Method != http.MethodGet:
		r.Fault(path, "the start page leads to the application with GET, and match %q is for %s alone; "+
			"move app to the route for GET", route.Match, place.Method)
	case place.Path == "" && route.App.URL == "":
		r.Missing(path+".url", "match %q matches many places, because of its wildcard; "+
			"give the one where users open the application, like https://wiki.example.org/", route.Match)
	}
	open := slices.Contains(route.Auth, policy.None)
	if len(route.Auth) > 0 && !route.TakesSessions() && !open {
		r.Warn(path, "no user sees the application, because a sign-in gives no credential that the route accepts; "+
			"add session or oidc to auth, or remove app")
	}
}

// checkLink checks the address of an application, if one is given. The error does not quote
// credentials.
func checkLink(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("is not a URL; expected one like https://wiki.example.org/")
	case u.User != nil:
		return errors.New("has credentials, which every user would see; remove them")
	case u.Scheme != "https" || u.Opaque != "":
		return fmt.Errorf("%q does not begin with https://; expected a URL like https://wiki.example.org/", raw)
	}
	if err := section.CheckHost(u.Hostname()); err != nil {
		return fmt.Errorf("%q: %w", raw, err)
	}
	return nil
}

// icons reads the icons of applications, and checks that they are images.
func (s sideReader) icons(routes []Route) {
	for i := range routes {
		app, key := routes[i].App, fmt.Sprintf("routes[%d].app.icon", i)
		if app == nil || app.Icon == "" {
			continue
		}
		content, ok := s.Read(key, app.Icon, maxLogoSize)
		if !ok {
			continue
		}
		var err error
		if app.Image, err = pages.ReadLogo(content); err != nil {
			s.Main.Fault(key, "%s is no PNG or SVG image: %v", app.Icon, err)
		}
	}
}
