package endpoint

import (
	"net/http"
	"net/url"
	"strings"

	"authgate/gateway/web"
)

// twins is POST /signin/cookies: it removes the cookies that other services have set with
// the name of one of the gateway's, and leads back. The session of the user stays.
type twins struct{ site *web.Site }

func (t *twins) serve(ex *web.Exchange) error {
	values, err := url.ParseQuery(string(ex.Body))
	if ex.MediaType() != web.TypeForm {
		return unsupportedMedia(web.TypeForm)
	}
	name := values.Get(web.CookieField)
	if err != nil || len(values[web.CookieField]) != 1 || !t.site.Cookies.Own(name) {
		return &web.Error{Status: http.StatusBadRequest, Detail: "The field cookie must name one of the gateway's cookies."}
	}
	r := t.site.ReadReturn(&ex.Received, values.Get(web.ReturnToField), "")
	path, _, _ := strings.Cut(r.Path, "?")
	if r.Host != "" {
		path = ""
	}
	t.site.Cookies.ClearTwins(ex, name, ex.Canonical.Host, path)
	ex.Redirect(http.StatusSeeOther, t.site.PlaceOrStart(r))
	return nil
}
