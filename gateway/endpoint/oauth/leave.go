package oauth

import (
	"html/template"
	"io"
	"net/http"

	"authgate/gateway/endpoint"
	"authgate/gateway/identity/clients"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
)

// trusts reports whether the browser may be led to a client without a question: the operator has
// written its addresses, or the user has allowed it something before. Everybody can name or register
// any other client, and would lead users to any site by an address of the gateway.
func (s *core) trusts(ex *web.Exchange, client *clients.Client) (bool, error) {
	if client.Configured {
		return true, nil
	}
	id, err := endpoint.Guest(ex, s.options.Sessions(""))
	if id == nil || err != nil {
		return false, err
	}
	return s.consents.Has(&ex.Store, id.Subject, client.ID)
}

// redirect leads the browser on: after a form it gets there with GET.
func (s *core) redirect(ex *web.Exchange, place string) {
	status := http.StatusFound
	if ex.Canonical.Method == http.MethodPost {
		status = http.StatusSeeOther
	}
	ex.Redirect(status, place)
}

// offer shows a page that names the host of a place, and has a link there. The place is a registered
// address of a client, or begins with one, so that it has a scheme that clients may have.
func (s *core) offer(ex *web.Exchange, status int, place string, page pages.Leave) {
	page.URL, page.Host = template.URL(place), hostOf(place)
	ex.Page(status, func(p *pages.Pages, w io.Writer) error { return p.Leave(w, page) })
}
