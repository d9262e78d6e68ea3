package signin

import (
	"net/http"
	"strings"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
)

// clearTwins is POST /signin/cookies: it removes the cookies that other services have set
// with the name of one of the gateway's, and leads back. The session of the user stays.
func clearTwins(site *web.Site) func(*web.Exchange) error {
	return func(ex *web.Exchange) error {
		const detail = "The field cookie must name one of the gateway's cookies."
		values, err := bodies.ReadForm(ex, detail, web.CookieField)
		if err != nil {
			return err
		}
		name := values.Get(web.CookieField)
		if !site.Cookies.Own(name) {
			return web.BadRequest(detail, nil)
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
