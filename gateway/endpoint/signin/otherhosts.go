package signin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/login/journey"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// OtherHosts give a user who is signed in at the host of public_url a session at
// another host of the gateway: a ticket brings the login there, in the browser
// that waits for it.
type OtherHosts struct {
	options *Options
	site    *web.Site
}

// NewOtherHosts returns the sessions at other hosts of a configuration.
func NewOtherHosts(o *Options) *OtherHosts { return &OtherHosts{options: o, site: o.Site} }

// RefuseScript refuses a script that says so: a redirect would lead it to a page for people.
func RefuseScript(ex *web.Exchange) error {
	if !ex.ByXHR() {
		return nil
	}
	return &web.Error{
		Status: http.StatusUnauthorized, Detail: auth.DetailNotSignedIn,
		Cause: errors.New("a script cannot sign in on a page"),
	}
}

// StartAtHome redirects a user who wants to sign in at another host to the host
// of public_url. The named parameters stay.
func (o *OtherHosts) StartAtHome(ex *web.Exchange, name string, r places.Return, parameters ...string) error {
	if err := RefuseScript(ex); err != nil {
		return err
	}
	page := o.site.Own(name)
	for _, parameter := range parameters {
		if value := ex.QueryValue(parameter); value != "" {
			page = places.WithParameter(page, parameter, value)
		}
	}
	ex.Redirect(http.StatusFound, ex.SignInPlace(page, r))
	return nil
}

// maxReturnTo is the longest path with its query that an attempt or a ticket
// stores, in bytes.
const maxReturnTo = 8 << 10

// Storable returns r as an attempt or a ticket can store it: a place that is too long
// becomes the start page of its host.
func Storable(r places.Return) places.Return {
	if len(r.Path) > maxReturnTo {
		r.Path = "/"
	}
	return r
}

// next returns where a user who has signed in goes on.
func (o *OtherHosts) next(ctx context.Context, sid string, r places.Return) (string, error) {
	if r.Path == "" {
		return "/", nil
	}
	if r.Binding == "" {
		return o.site.Place(r), nil
	}
	r = Storable(r)
	ticket, err := o.options.Tickets.Issue(ctx, journey.Ticket{
		Login: sid, Scope: r.Host, Browser: r.Binding, Path: r.Path, Elsewhere: r.Elsewhere,
	})
	if err != nil {
		return "", err
	}
	return o.site.Complete(r.Host, ticket), nil
}

// AfterLogin is next for a user who has just signed in. Without a ticket, the
// other host starts again. asks tells that a page must ask first, because another
// site began the sign-in; with a ticket, the other host has that page.
func (o *OtherHosts) AfterLogin(ex *web.Exchange, sid string, r places.Return) (place string, asks bool) {
	ctx, end := ex.Store.Recording()
	defer end()
	place, err := o.next(ctx, sid, r)
	if err != nil {
		o.site.Service.Logger.Warn("a ticket could not be recorded; the sign-in at the other host starts again",
			"request_id", ex.ID, "login", sid, "error", err.Error())
		return o.site.Place(r), r.Elsewhere
	}
	return place, r.Elsewhere && r.Binding == ""
}

// Ask answers with a page that leads to a place of the gateway if the user wants
// that. A redirect, or a page that leads on by itself, would be a request of the
// gateway's own site: it would take strict cookies along.
func (o *OtherHosts) Ask(ex *web.Exchange, place string) {
	page := pages.Ask{URL: place, Shown: place}
	if strings.HasPrefix(place, "/") {
		page.Shown = o.site.Place(places.Return{Host: ex.Canonical.Host, Path: place})
	}
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.Ask(w, page) })
}

// BySession sends a user who is signed in back to the host that waits for them,
// without a page. only is the mechanism that counts, empty for both.
func (o *OtherHosts) BySession(ex *web.Exchange, only policy.Mechanism, r places.Return) error {
	if r.Binding == "" || ex.Canonical.Method == http.MethodHead { // issues nothing
		return nil
	}
	id, err := ex.Authenticate(o.options.Sessions(only))
	switch {
	case err == nil:
	case !errors.Is(err, auth.ErrNoCredentials) && !errors.Is(err, auth.ErrRejected):
		return err
	case o.site.Cookies.Strict() && ex.Request.Header.Get("Sec-Fetch-Site") == "cross-site":
		// The browser may have a session that it does not send on the way from
		// another site. From this page it does.
		o.Onward(ex, ex.Target())
		return web.ErrAnswered
	default:
		ex.Stale.Clear(ex)
		return nil
	}
	if !r.Demand.Met(&id.Proof, ex.Canonical.Now) {
		return nil // the login would not be enough at the other host either
	}
	ex.Identify(id)
	if !o.begunHere(ex, id, only, r) {
		return web.ErrAnswered
	}
	place, err := o.next(&ex.Store, id.Login, r)
	if err != nil {
		return err
	}
	ex.Redirect(http.StatusFound, place)
	return web.ErrAnswered
}

// begunHere reports whether this browser began the sign-in at the other host, and
// has answered if not. A link of another site may have led here, with the binding of
// another browser. So the browser goes to the other host and back: there, its cookie
// tells. Programs follow no links of other sites, and need not go there.
func (o *OtherHosts) begunHere(ex *web.Exchange, id *policy.Identity, only policy.Mechanism, r places.Return) bool {
	if !ex.FollowsLinks() {
		return true
	}
	session := ex.Credentials.Session
	if id.Mechanism == policy.OIDC {
		session = ex.Credentials.Delegated
	}
	proof, presented := journey.Begun(session, r.Host, r.Binding), ex.QueryValue(places.BegunField)
	switch {
	case presented == "":
		place := places.WithParameter(o.site.Confirm(r.Host), places.BegunField, proof)
		if only != "" {
			place = places.WithParameter(place, "mechanism", string(only))
		}
		ex.Redirect(http.StatusFound, o.site.WithReturn(place, r))
	case subtle.ConstantTimeCompare([]byte(presented), []byte(proof)) == 1:
		return true
	default: // another session, or a link
		ex.Redirect(http.StatusFound, o.unbegun(r))
	}
	return false
}

// unbegun returns the page that asks a user who has not begun the sign-in. The other
// host begins it anew.
func (o *OtherHosts) unbegun(r places.Return) string {
	r.Binding, r.Elsewhere = "", o.site.Cookies.Strict()
	return o.site.WithReturn(places.WithParameter(o.site.Own("signin"), places.ReasonField, places.ReasonUnbegun), r)
}

// confirm is the other host's part of begunHere: it sends the proof back if this
// browser has the secret of the binding.
func (o *OtherHosts) confirm(ex *web.Exchange) error {
	if o.site.AtHome(&ex.Received) {
		return web.BadRequest("There is no sign-in to confirm at this host.", nil)
	}
	r := o.site.ReadReturn(ex.Canonical.Host, ex.QueryValue(places.ReturnToField), "")
	r.Host, r.Elsewhere = ex.Canonical.Host, ex.QueryValue(places.ElsewhereField) != ""
	r.Demand = ex.ReadReturn(ex.QueryValue).Demand
	if r.Path == "" {
		r.Path = "/"
	}
	binding, secret := ex.QueryValue(places.BindingField), ex.Credentials.Browser
	if !journey.ValidBrowserSecret(secret) || journey.Binding(secret) != binding {
		ex.Redirect(http.StatusFound, o.site.PublicURL+o.unbegun(r))
		return nil
	}
	r.Binding = binding
	page := places.WithParameter(o.site.Own("signin"), places.BegunField, ex.QueryValue(places.BegunField))
	if only := ex.QueryValue("mechanism"); only != "" {
		page = places.WithParameter(page, "mechanism", only)
	}
	ex.Redirect(http.StatusFound, o.site.PublicURL+o.site.WithReturn(page, r))
	return nil
}

// Onward answers with a page that leads by itself to a place of the gateway.
func (o *OtherHosts) Onward(ex *web.Exchange, place string) {
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.Onward(w, pages.Onward{URL: place}) })
}

// complete is GET /signin/complete: it exchanges a ticket for a session at the
// host of the request, and leads to the page that the user asked for. A browser
// that keeps no cookies ends here, with an error.
func (o *OtherHosts) complete(ex *web.Exchange) error {
	ex.Header().Set("Referrer-Policy", "no-referrer") // the application must not see the ticket
	ex.SignIn = &web.SignInLink{Page: o.site.Own("signin"), Always: true}
	if ex.Canonical.Method == http.MethodHead { // uses nothing
		ex.Redirect(http.StatusFound, o.site.Own("signin"))
		return nil
	}
	values, err := ex.Query()
	if err != nil {
		return err
	}
	if values.Has(places.BegunField) {
		return o.confirm(ex)
	}
	// A client that leaves now must not leave half a session behind.
	ctx, end := ex.Store.Recording()
	defer end()
	ticket, err := o.present(ctx, ex, values["ticket"])
	if err != nil {
		return refusedTicket(err)
	}
	id, err := o.options.Sessions("").Alive(ctx, &ex.Credentials)
	faster := err == nil && id.Login == ticket.Login // another tab was
	if !faster {
		if err := o.beginSession(ctx, ex, ticket); err != nil {
			return refusedTicket(err)
		}
	}
	switch {
	case ticket.Elsewhere:
		o.Ask(ex, ticket.Path)
	case o.site.Cookies.Strict() && !faster: // a redirect would be one of the other host
		o.Onward(ex, ticket.Path)
	default:
		ex.Redirect(http.StatusFound, ticket.Path)
	}
	return nil
}

// refusedTicket returns the error of a ticket that is refused. A browser that comes back later, or that
// keeps no cookies, presents a ticket that was good once.
func refusedTicket(err error) error {
	if errors.Is(err, journey.ErrNoTicket) {
		return &web.Refusal{Err: err, Kind: web.CredentialTicket, Past: true}
	}
	return err
}

// present uses the one ticket that the request presents. If it presents several, no
// ticket counts, and all are used up.
func (o *OtherHosts) present(ctx context.Context, ex *web.Exchange, secrets []string) (*journey.Ticket, error) {
	malformed := web.BadRequest("There must be one parameter ticket.", nil)
	if len(secrets) == 0 || len(secrets) > maxPresented {
		return nil, malformed
	}
	var ticket *journey.Ticket
	for _, secret := range secrets {
		var err error
		ticket, err = o.options.Tickets.Use(ctx, secret, ex.Credentials.Scope, ex.Credentials.Browser)
		if err != nil && (len(secrets) == 1 || !errors.Is(err, journey.ErrNoTicket)) {
			return nil, err
		}
	}
	if len(secrets) > 1 {
		return nil, malformed
	}
	return ticket, nil
}

// maxPresented bounds how many tickets a request uses up.
const maxPresented = 4

// beginSession gives the browser its session at this host, in place of others.
func (o *OtherHosts) beginSession(ctx context.Context, ex *web.Exchange, ticket *journey.Ticket) error {
	if err := o.options.Logout.Presented.EndOthers(ctx, ex, ticket.Login); err != nil {
		return err
	}
	var session string
	attach := func(l *login.Login) (string, []byte, time.Time, error) {
		if l.Outdates(ticket) {
			return "", nil, time.Time{},
				fmt.Errorf("%w: issued before the user changed the password", journey.ErrNoTicket)
		}
		value, handle := o.kind(l).New(ticket.Scope)
		session = value
		return handle(l)
	}
	attached, err := o.options.Users.Logins.Attach(ctx, ticket.Login, ticket.Scope, attach)
	if err != nil {
		return err
	}
	kind, cookies := o.kind(attached), &o.site.Cookies
	name, mechanism := cookies.Names.Session, policy.Session
	if attached.Delegated != nil {
		name, mechanism = cookies.Names.Delegated, policy.OIDC
	}
	cookies.SetSession(ex, name, session, kind.Expires(attached).Sub(o.options.Now()))
	cookies.ClearOthers(ex, &ex.Credentials, true, name)
	ex.Mechanism = string(mechanism)
	ex.Audit("session", slog.String("subject", attached.Subject()), slog.String("login", attached.ID))
	return nil
}

// kind returns the sessions of a login. A login at a provider has none if there
// are no providers any more.
func (o *OtherHosts) kind(l *login.Login) *login.Sessions {
	if delegated := o.options.Users.Delegated; l.Delegated != nil && delegated != nil {
		return delegated
	}
	return o.options.Users.Sessions
}
