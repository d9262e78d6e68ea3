package signin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/proxy/web"
)

// languageLifetime is how long a browser keeps the language that its user has chosen.
const languageLifetime = 365 * 24 * time.Hour

// chooseLanguage is POST /signin/language: the gateway's pages at this host are in the language
// that the user chooses, in this browser. It leads back to the page where they are.
func chooseLanguage(o *endpoint.Options) func(*web.Exchange) error {
	return func(ex *web.Exchange) error {
		tags := o.Site.Pages.Tags()
		detail := "The field language must be one of " + strings.Join(tags, ", ") + "."
		values, err := bodies.ReadForm(ex, detail, web.LanguageField)
		if err != nil {
			return err
		}
		chosen := values.Get(web.LanguageField)
		if !slices.Contains(tags, chosen) {
			return web.BadRequest(detail, nil)
		}
		if err := checkToken(ex, o); err != nil {
			return err
		}
		cookies := &o.Site.Cookies
		cookies.Set(ex, cookies.Names.Language, chosen, languageLifetime)
		// The sign-in page would take a user who comes from itself for one who has just signed in, and
		// whose browser keeps no cookies.
		ex.Header().Set("Referrer-Policy", "no-referrer")
		ex.Redirect(http.StatusSeeOther, o.Site.SamePage(&ex.Received, values.Get(web.BackField)))
		return nil
	}
}

// checkToken refuses a request that must carry the anti-CSRF token of the user's login, and does
// not.
func checkToken(ex *web.Exchange, o *endpoint.Options) error {
	if !o.CrossSite.NeedsToken(ex) {
		return nil
	}
	id, err := endpoint.Guest(ex, o.Sessions(""))
	if err != nil || id == nil {
		return err
	}
	return o.CrossSite.CheckToken(ex, id.Login)
}
