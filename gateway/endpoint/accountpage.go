package endpoint

import (
	"errors"
	"io"
	"net/http"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/web"
	"authgate/policy"
)

// doneField tells the page of the account what a form has done.
const doneField = "done"

// Values of doneField.
const (
	doneLogin      = "login"
	doneOthers     = "logins"
	doneEverywhere = "everywhere"
	donePassword   = "password"
	doneToken      = "token"
)

// accountPage is the page where users see and change what is theirs.
type accountPage struct {
	*account
	overview  *login.Overview
	accounts  *auth.Accounts
	tokens    *login.APITokens
	passwords Passwords
	now       func() time.Time // the clock of the store
}

// done leads a browser back to the page, after a form has done something.
func (a *accountPage) done(ex *web.Exchange, what string) {
	ex.Redirect(http.StatusSeeOther, web.WithParameter(a.site.Own("account"), doneField, what))
}

// notice returns what the page says about the form before.
func (a *accountPage) notice(ex *web.Exchange) pages.ManageNotice {
	return map[string]pages.ManageNotice{
		doneLogin: pages.ManageEnded, doneOthers: pages.ManageEndedOthers,
		doneEverywhere: pages.ManageEndedEverywhere, donePassword: pages.ManagePassword, doneToken: pages.ManageRevoked,
	}[ex.QueryValue(doneField)]
}

// owner returns the local account of an identity. Users of providers have none.
func (a *accountPage) owner(id *policy.Identity) (*auth.Account, bool) {
	if id.Provider != policy.LocalProvider {
		return nil, false
	}
	return a.accounts.Lookup(id.Username)
}

// logins returns the live logins of the user, the current one first.
func (a *accountPage) logins(ex *web.Exchange, id *policy.Identity) ([]login.LiveLogin, error) {
	all, err := a.overview.List(&ex.Store, id)
	if err != nil {
		return nil, err
	}
	for i, l := range all {
		if l.ID == id.Login {
			l.LastUsed = a.now() // by this request
			copy(all[1:i+1], all[:i])
			all[0] = l
		}
	}
	return all, nil
}

// write answers with the page, as show changes it.
func (a *accountPage) write(ex *web.Exchange, id *policy.Identity, status int, show func(*pages.Manage)) error {
	page := pages.Manage{
		User: ex.User(id), Email: id.Email, Roles: id.Roles, Mechanism: string(id.Mechanism), Provider: id.Provider,
		CSRFToken: a.crossSite.Token(ex, id.Login),
	}
	logins, err := a.logins(ex, id)
	if err != nil {
		return err
	}
	for _, l := range logins {
		own := pages.OwnLogin{
			ID: l.ID, Current: l.ID == id.Login, Mechanism: string(l.Mechanism), Provider: l.Provider,
			UserAgent: l.Device.UserAgent, Created: l.Created, Used: l.LastUsed, Expires: l.Expires,
		}
		if l.Device.Client.IsValid() {
			own.Client = l.Device.Client.String()
		}
		page.Logins = append(page.Logins, own)
	}
	if id.Mechanism != policy.Bearer { // which may only read
		page.EndAction = a.site.Own("account/sessions/end")
		if err := a.offer(ex, id, &page); err != nil {
			return err
		}
	}
	show(&page)
	ex.Page(status, func(p *pages.Pages, w io.Writer) error { return p.Manage(w, page) })
	return nil
}

// offer adds what the user can change: the password of a local account, and API tokens.
func (a *accountPage) offer(ex *web.Exchange, id *policy.Identity, page *pages.Manage) error {
	if account, ok := a.owner(id); ok && a.passwords.Writable() && a.passwords.Has(account.Username) {
		page.PasswordAction = a.site.Own("account/password")
	}
	owner, err := a.tokens.Owner(&ex.Store, id)
	if errors.Is(err, login.ErrNoTokenOwner) {
		return nil
	}
	if err != nil {
		return err
	}
	page.TokenAction, page.RevokeAction, page.TokenRoles = a.site.Own("account/tokens"), a.site.Own("account/tokens/revoke"), owner.Roles()
	if !a.account.logins.SignedInWithin(id, freshSignIn) {
		page.SignInAgainURL = a.signInAgain()
	}
	tokens, err := a.tokens.List(&ex.Store, owner)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		page.Tokens = append(page.Tokens, pages.OwnToken{ID: t.ID, Name: t.Name, Roles: t.Roles, Created: t.Created, Used: t.LastUsed, Expires: t.Expires})
	}
	return nil
}

// byPage reports whether the form of the page, or one like it, sent the request.
func byPage(ex *web.Exchange) bool {
	return ex.MediaType() == web.TypeForm && web.Negotiate(ex.Request) == web.TypeHTML
}

// refuse answers a form of the page with the page, which says what was wrong. Other
// requests get err.
func (a *accountPage) refuse(ex *web.Exchange, id *policy.Identity, status int, notice pages.ManageNotice, err error) error {
	if !byPage(ex) || notice == pages.ManageNothing {
		return err
	}
	if failed := a.write(ex, id, status, func(page *pages.Manage) { page.Notice = notice }); failed != nil {
		return failed
	}
	ex.Failed(err, status)
	return nil
}
