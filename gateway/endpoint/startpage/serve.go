package startpage

import (
	"io"
	"net/http"
	"strconv"

	"authgate/gateway/endpoint"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// appInfo describes an application to a program.
type appInfo struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	URL         string `json:"url"`
	Icon        string `json:"icon"` // a URL, empty if it has none
}

// servePage is GET /account/apps: the applications of the user. A browser gets a page, or has to
// sign in first.
func (s *StartPage) servePage(ex *web.Exchange) error {
	id, err := s.options.PageReader(ex)
	if err != nil {
		return err
	}
	if web.Negotiate(ex.Request) == web.TypeHTML {
		s.write(ex, s.signedIn(ex, id))
		return nil
	}
	infos := []appInfo{}
	for _, a := range s.open(ex, id) {
		info := appInfo{Title: a.title, Description: a.description, URL: a.url}
		if path := s.iconPath(&a); path != "" {
			info.Icon = s.options.Site.PublicURL + path
		}
		infos = append(infos, info)
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string][]appInfo{"apps": infos})
	return nil
}

// serveHome is the page at / of the host where users sign in, for when no route is there.
func (s *StartPage) serveHome(ex *web.Exchange) error {
	id, err := endpoint.Guest(ex, s.options.Sessions(""))
	if err != nil {
		return err
	}
	page := pages.Home{Lists: len(s.apps) > 0}
	switch {
	case id != nil:
		page = s.signedIn(ex, id)
	case ex.SignIn != nil: // some route accepts what a sign-in gives
		page.SignInURL = s.options.Site.Own("signin")
	}
	s.write(ex, page)
	return nil
}

// signedIn returns the page of a user.
func (s *StartPage) signedIn(ex *web.Exchange, id *policy.Identity) pages.Home {
	page := pages.Home{User: ex.User(id), AccountURL: s.options.Site.Own("account"), Lists: len(s.apps) > 0}
	for _, a := range s.open(ex, id) {
		page.Apps = append(page.Apps, pages.App{
			Title: a.title, Description: a.description, URL: a.url, Icon: s.iconPath(&a),
		})
	}
	return page
}

func (s *StartPage) write(ex *web.Exchange, page pages.Home) {
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.Home(w, page) })
}

// iconPolicy lets nothing in an icon run or fetch. An image in a page does neither, but a
// browser may also be led to the icon itself, and an SVG is a document then.
const iconPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; " +
	"frame-ancestors 'none'; base-uri 'none'"

// serveIcon is GET /account/apps/icon: the icon of an application that the user may open.
func (s *StartPage) serveIcon(ex *web.Exchange) error {
	id, err := s.options.Reader(ex)
	if err != nil {
		return err
	}
	name := ex.QueryValue(iconField)
	for _, a := range s.open(ex, id) {
		if a.iconID == "" || a.iconID != name {
			continue
		}
		h := ex.Header()
		h.Set("Cache-Control", "private, max-age=31536000, immutable") // the address names the content
		ex.OwnHeader(a.icon.MediaType)
		h.Set("Content-Security-Policy", iconPolicy)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Length", strconv.Itoa(len(a.icon.Content)))
		ex.WriteHeader(http.StatusOK)
		_, _ = ex.Write(a.icon.Content) // the client is gone if this fails
		return nil
	}
	return endpoint.NothingHere("no application that the user may open has this icon")
}
