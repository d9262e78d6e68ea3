// Package signout has the endpoint where users sign out, and ends the logins that a request
// presents.
//
// # Limits and threats
//
// A logout is answered with success only when the store has recorded it: cookies are cleared
// last. The provider of a login is told of its end, and one that fails keeps no user signed
// in here. A link signs out only a person who follows it, and asks first if it is on another
// site. A client that leaves does not stop its logout.
package signout

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/endpoint"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/login/apitokens"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
)

const (
	// othersTime bounds how long the providers of ended logins have to end them too,
	// and othersAtOnce how many logins are ended there side by side.
	othersTime   = 10 * time.Second
	othersAtOnce = 16
)

// Logout is /logout, by POST and by GET. It answers with success only when the
// store has recorded the end.
type Logout struct {
	Presented *Presented // the logins that a request ends
	site      *web.Site
	crossSite *web.CrossSite
	options   *Options
}

// Options are the parts of a logout.
type Options struct {
	*endpoint.Options
	Users   *login.Overview
	Refresh *login.RefreshTokens
	Tokens  *login.AccessTokens
	Bearers *apitokens.Bearers
	// AtProvider signs out at the identity provider of a login that has ended here. It returns where
	// a browser must go for that, "" if nowhere.
	AtProvider func(ctx context.Context, ended *login.Login) (redirect string, err error)
}

// New returns the logout of a configuration.
func New(o *Options) *Logout {
	return &Logout{Presented: &Presented{o, o.Site.Service.Metrics}, site: o.Site, crossSite: o.CrossSite, options: o}
}

// Rows returns the endpoints of the logout.
func (l *Logout) Rows() []endpoint.Row {
	return []endpoint.Row{
		{Name: "logout", Method: http.MethodGet, Do: l.byLink},
		{Name: "logout", Method: http.MethodPost, Do: l.serve},
	}
}

// signedOut is the body of a logout. ContinueAt is where the browser must go to
// sign out at the identity provider too.
type signedOut struct {
	Message    string `json:"message"`
	ContinueAt string `json:"continue_at,omitempty"`
}

// serve is POST /logout: it ends every credential of the request.
func (l *Logout) serve(ex *web.Exchange) error {
	ctx := ex.Store.Detached()
	if err := l.checkSite(ctx, ex); err != nil {
		return err
	}
	if err := l.verifyBearer(ctx, ex); err != nil {
		return err
	}
	redirect, err := l.endLogins(ex)
	if err != nil {
		return err
	}
	// Last, so that after a failure the client can send the logout again.
	if err := l.revokeBearer(ex); err != nil {
		return err
	}
	l.answer(ex, redirect, web.Negotiate(ex.Request) == web.TypeHTML)
	return nil
}

// Here ends the login of the request, and the other logins of its cookies, for a user who does so
// on a page. page tells that a form of the page asked.
func (l *Logout) Here(ex *web.Exchange, page bool) error {
	redirect, err := l.endLogins(ex)
	if err != nil {
		return err
	}
	l.answer(ex, redirect, page)
	return nil
}

// End ends the login of the request, and the other logins of its cookies, for a caller who leads
// the browser on. The provider of a delegated login is told only if the browser need not go there.
func (l *Logout) End(ex *web.Exchange) error {
	if _, err := l.endLogins(ex); err != nil {
		return err
	}
	l.site.Cookies.ClearAll(ex)
	return nil
}

// endLogins ends the logins behind the cookies. It returns where the browser must go to sign
// out at the provider too, "" if nowhere.
func (l *Logout) endLogins(ex *web.Exchange) (redirect string, err error) {
	ended, err := l.Presented.endLogins(ex)
	if ended != nil {
		redirect = l.endAtProvider(context.WithoutCancel(ex.Request.Context()), ex, ended)
	}
	return redirect, err
}

// Ended counts and logs logins that the user has ended elsewhere, and signs them out at
// their providers, as far as that needs no browser.
func (l *Logout) Ended(ex *web.Exchange, logins []*login.Login) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ex.Request.Context()), othersTime)
	defer cancel()
	var all errgroup.Group
	all.SetLimit(othersAtOnce)
	for _, ended := range logins {
		l.Presented.note(ex, ended)
		if ended.Delegated != nil {
			all.Go(func() error {
				l.endAtProvider(ctx, ex, ended)
				return nil
			})
		}
	}
	_ = all.Wait()
}

// answer confirms a logout. redirect is where the browser goes on at the provider,
// empty for nowhere.
func (l *Logout) answer(ex *web.Exchange, redirect string, page bool) {
	l.site.Cookies.ClearAll(ex)
	switch {
	case !page:
		ex.JSON(web.TypeJSON, http.StatusOK, signedOut{Message: "Signed out.", ContinueAt: redirect})
	case redirect != "":
		// Not a redirect: browsers apply form-action to redirects after a form, too.
		ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error {
			return p.SignedOut(w, pages.SignedOut{ContinueURL: redirect})
		})
	default:
		ex.Redirect(http.StatusSeeOther,
			places.WithParameter(l.site.Own("signin"), places.ReasonField, places.ReasonSignedOut))
	}
}

// byLink is GET /logout: it ends the logins behind the cookies, for a person who goes there.
// A request ahead of a click, or for a part of a page, signs no user out. A link on another site
// must not either, so it leads to a page that asks first.
func (l *Logout) byLink(ex *web.Exchange) error {
	if !ex.Navigates() {
		return NoNavigation()
	}
	if ex.FromOtherSite() {
		return l.confirm(ex)
	}
	target, err := l.endLogins(ex)
	if err != nil {
		return err
	}
	l.site.Cookies.ClearAll(ex)
	ex.Redirect(http.StatusFound, cmp.Or(target, "/"))
	return nil
}

// NoNavigation returns the error of a GET that would sign a user out, and that no person sends
// who goes there.
func NoNavigation() error {
	return &web.Error{
		Status: http.StatusForbidden,
		Detail: "GET signs out only a person who opens this address. A program or a script must use POST.",
		Cause:  errors.New("the request is a HEAD, a prefetch, or for a script or a part of a page"),
	}
}

func (l *Logout) confirm(ex *web.Exchange) error {
	page := pages.ConfirmLogout{Action: l.site.Own("logout")}
	if l.crossSite.Tokens() {
		logins, err := l.Presented.BehindCookies(&ex.Store, &ex.Credentials)
		if err != nil {
			return err
		}
		if len(logins) > 0 {
			page.Token = l.crossSite.Token(ex, logins[0])
		}
	}
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.ConfirmLogout(w, page) })
	return nil
}

// checkSite demands the anti-CSRF token for a logout by cookies.
func (l *Logout) checkSite(ctx context.Context, ex *web.Exchange) error {
	if !l.crossSite.NeedsToken(ex) {
		return nil
	}
	logins, err := l.Presented.BehindCookies(ctx, &ex.Credentials)
	if err != nil || len(logins) == 0 {
		return err
	}
	return l.crossSite.CheckToken(ex, logins...)
}

// verifyBearer refuses a bearer token that is not valid, before anything ends.
func (l *Logout) verifyBearer(ctx context.Context, ex *web.Exchange) error {
	if ex.Credentials.Scheme != "bearer" {
		return nil
	}
	id, err := l.options.Bearers.Authenticate(ctx, &ex.Credentials)
	if err != nil {
		if errors.Is(err, auth.ErrRejected) {
			err = web.Refused(web.CredentialAccessToken, err)
		}
		return web.Challenge(err, auth.Chain{l.options.Bearers}.Challenges(&ex.Credentials)...)
	}
	ex.Identify(id)
	if auth.IsAPIToken(ex.Credentials.Value) {
		return web.Refused(web.CredentialAccessToken, &web.Error{
			Status: http.StatusForbidden,
			Detail: "An API token belongs to no login, and cannot end one. Revoke it at " +
				l.site.Own("account/tokens/revoke") + ".",
		})
	}
	return nil
}

// revokeBearer revokes the bearer token and ends its login. A token that verifyBearer has accepted,
// and that is no longer valid, belonged to a login that a cookie has just ended.
func (l *Logout) revokeBearer(ex *web.Exchange) error {
	if ex.Credentials.Scheme != "bearer" {
		return nil
	}
	ctx, end := ex.Store.Recording()
	defer end()
	_, err := l.options.Bearers.Revoke(ctx, ex.Credentials.Value)
	if errors.Is(err, auth.ErrRejected) {
		return nil
	}
	if err != nil {
		return err
	}
	l.site.Service.Metrics.Token(web.TokenRevoked)
	ex.Audit("logout")
	return nil
}

// endAtProvider signs out at the identity provider of a login that has ended
// here. It returns where the browser must go for that, "" if nowhere. A provider
// that fails does not keep the user signed in here: only the log tells of it.
func (l *Logout) endAtProvider(ctx context.Context, ex *web.Exchange, ended *login.Login) (redirect string) {
	redirect, err := l.options.AtProvider(ctx, ended)
	if err != nil {
		l.site.Service.Logger.Warn("signing out at the provider failed; the session here has ended",
			"request_id", ex.ID, "subject", ended.Subject(), "login", ended.ID, "error", err.Error())
	}
	return redirect
}
