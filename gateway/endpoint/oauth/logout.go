package oauth

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/clients"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// leaving is a logout that a client asks for (OpenID Connect RP-Initiated Logout 1.0, section
// 2).
type leaving struct {
	place  string          // where the browser goes on; empty: the client names none
	client *clients.Client // whose place it is
	login  string          // of the ID token that is the hint; empty: there is none
}

// logouts are sign-outs that clients ask for.
type logouts struct {
	*core
	logout *signout.Logout
}

// endSession is GET oauth/logout.
func (s *logouts) endSession(ex *web.Exchange) error {
	values, err := readQuery(ex)
	if err != nil {
		return err
	}
	return s.byClient(ex, values)
}

// byClient answers the request of a client. A user whose login it does not name is asked first.
func (s *logouts) byClient(ex *web.Exchange, values url.Values) error {
	l, err := s.readLeaving(ex, values)
	if err != nil {
		return err
	}
	id, err := endpoint.Guest(ex, s.options.Sessions(""))
	switch {
	case err != nil:
		return err
	case id == nil:
		return s.leave(ex, l)
	}
	current, err := s.isCurrent(ex, l.login, id)
	switch {
	case err != nil:
		return err
	case current && ex.Canonical.Method != http.MethodPost && !ex.Navigates():
		return signout.NoNavigation()
	case current:
		return s.endLogins(ex, l, true)
	}
	s.confirmLogout(ex, id, values)
	return nil
}

// endLogins signs the user out, and leads the browser on: to a place that is not trusted by a page.
func (s *logouts) endLogins(ex *web.Exchange, l *leaving, trusted bool) error {
	if l.place == "" {
		return s.logout.Here(ex, true)
	}
	if err := s.logout.End(ex); err != nil {
		return err
	}
	s.goOn(ex, l, trusted)
	return nil
}

func (s *logouts) goOn(ex *web.Exchange, l *leaving, trusted bool) {
	if trusted {
		s.redirect(ex, l.place)
		return
	}
	s.offer(ex, http.StatusOK, l.place, pages.Leave{SignedOut: true})
}

// isCurrent reports whether a login is that of the user of the browser, or one that it has
// inherited.
func (s *logouts) isCurrent(ex *web.Exchange, login string, id *policy.Identity) (bool, error) {
	if login == "" || login == id.Login {
		return login != "", nil
	}
	return s.logins.Inherits(&ex.Store, id.Login, login)
}

// leave answers a user who is not signed in. An ID token is the word of a client that has had one.
func (s *logouts) leave(ex *web.Exchange, l *leaving) error {
	if l.place == "" {
		return s.logout.Here(ex, true)
	}
	s.goOn(ex, l, l.login != "" || l.client.Configured)
	return nil
}

// confirmLogout asks a user who may have been led here by anybody.
func (s *logouts) confirmLogout(ex *web.Exchange, id *policy.Identity, values url.Values) {
	page := pages.ConfirmLogout{
		Action: s.site.Own(logoutPath) + "?" + values.Encode(), Token: s.options.CrossSite.Token(ex, id.Login),
		Decides: true,
	}
	ex.LeadsAnywhere = true
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.ConfirmLogout(w, page) })
}

// endSessionByForm is POST oauth/logout: the form of the page, or the request of a client. Without a
// session, the browser may have kept its cookie back.
func (s *logouts) endSessionByForm(ex *web.Exchange) error {
	form, err := bodies.ReadForm(ex, detailNoForm)
	if err != nil {
		return err
	}
	if form.Has(decisionField) {
		return s.decideLogout(ex, form)
	}
	id, err := endpoint.Guest(ex, s.options.Sessions(""))
	if err != nil {
		return err
	}
	if id == nil {
		s.byLink(ex, logoutPath, form)
		return nil
	}
	return s.byClient(ex, given(form))
}

// decideLogout answers the form by which a user signs out.
func (s *logouts) decideLogout(ex *web.Exchange, form url.Values) error {
	if len(form[decisionField]) != 1 || form.Get(decisionField) != decisionAllow {
		return web.BadRequest("The field decision must be allow.", nil)
	}
	values, err := readQuery(ex)
	if err != nil {
		return err
	}
	l, err := s.readLeaving(ex, values)
	if err != nil {
		return err
	}
	crossSite := s.options.CrossSite
	if err := crossSite.CheckOrigin(ex); err != nil {
		return err
	}
	id, err := endpoint.Guest(ex, s.options.Sessions(""))
	if err != nil {
		return err
	}
	if id != nil && crossSite.NeedsToken(ex) {
		if err := crossSite.CheckToken(ex, id.Login); err != nil {
			return err
		}
	}
	trusted := false
	if l.place != "" {
		if trusted, err = s.trusts(ex, l.client); err != nil {
			return err
		}
	}
	return s.endLogins(ex, l, trusted)
}

// readLeaving reads who asks, and where the browser goes on. An address that is not
// registered gets an error page, and no login ends.
func (s *logouts) readLeaving(ex *web.Exchange, values url.Values) (*leaving, error) {
	for _, name := range []string{"id_token_hint", "client_id", "post_logout_redirect_uri", "state"} {
		if len(values[name]) > 1 {
			return nil, page("The application gives the parameter "+name+" more than once.", nil)
		}
	}
	l, client := &leaving{}, values.Get("client_id")
	if hint := values.Get("id_token_hint"); hint != "" {
		known, err := s.readHint(hint)
		if err != nil {
			return nil, page("id_token_hint is no ID token of this provider.", err)
		}
		if client != "" && client != known.client {
			return nil, page("id_token_hint is the ID token of another application than client_id.", nil)
		}
		client, l.login = known.client, known.login
	}
	target := values.Get("post_logout_redirect_uri")
	if target == "" {
		return l, nil
	}
	if client == "" {
		return nil, page("post_logout_redirect_uri needs id_token_hint or client_id beside it.", nil)
	}
	known, err := s.findClient(ex, client)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known.PostLogout, target) {
		return nil, page("The application asks to send you to an address that is not registered for it.",
			fmt.Errorf("the post-logout redirect URI %q of the client %q is not registered", target, client))
	}
	l.client = known
	if l.place = target; values.Get("state") != "" {
		l.place = places.WithParameter(target, "state", values.Get("state"))
	}
	return l, nil
}
