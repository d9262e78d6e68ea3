package signin

import (
	"net/http"
	"net/url"
	"strings"

	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
)

// clearTwins is POST /signin/cookies: it removes the cookies that other services have set
// with the name of one of the gateway's, and leads back. The session of the user stays.
func clearTwins(site *web.Site) func(*web.Exchange) error {
	return func(ex *web.Exchange) error {
		values, err := url.ParseQuery(string(ex.Body))
		if ex.MediaType() != web.TypeForm {
			return web.UnsupportedMedia(web.TypeForm)
		}
		name := values.Get(web.CookieField)
		if err != nil || len(values[web.CookieField]) != 1 || !site.Cookies.Own(name) {
			return web.BadRequest("The field cookie must name one of the gateway's cookies.", nil)
		}
		r := site.ReadReturn(ex.Canonical.Host, values.Get(places.ReturnToField), "")
		path, _, _ := strings.Cut(r.Path, "?")
		if r.Host != "" {
			path = ""
		}
		site.Cookies.ClearTwins(ex, name, ex.Canonical.Host, path)
		ex.Redirect(http.StatusSeeOther, site.PlaceOrStart(r))
		return nil
	}
}
