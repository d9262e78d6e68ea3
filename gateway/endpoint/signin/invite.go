package signin

import (
	"context"
	"errors"
	"io"
	"net/http"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/invitations"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// invite is the page of an invitation: its user sets a password there, and is signed in with
// it. A look at the page does not use the invitation up.
type invite struct {
	options  *Options
	second   *secondStep
	entrance *entrance
	starts   *auth.Starts
}

// show is GET /signin/invite.
func (i *invite) show(ex *web.Exchange) error {
	token := ex.QueryValue(invitations.TokenField)
	account, err := i.findAccount(ex, token)
	if err != nil {
		return err
	}
	i.write(ex, http.StatusOK, account, token, pages.ManageNothing)
	return nil
}

// serve is POST /signin/invite.
func (i *invite) serve(ex *web.Exchange) error {
	token, next, again, err := readInvite(ex)
	if err != nil {
		return err
	}
	account, err := i.findAccount(ex, token)
	if err != nil {
		return err
	}
	if err := CheckNewPassword(next, again); err != nil {
		ex.Failed(err, http.StatusBadRequest)
		i.write(ex, http.StatusBadRequest, account, token, PasswordNotice(err))
		return nil
	}
	if account, err = i.set(ex, account, token, next); err != nil {
		return err
	}
	return i.admit(ex, account)
}

// findAccount returns the account of an invitation.
func (i *invite) findAccount(ex *web.Exchange, token string) (*accounts.Account, error) {
	if err := i.starts.Begin(ex.Peer.Client); err != nil {
		return nil, err
	}
	account, err := i.options.Invitations.Find(&ex.Store, token)
	return account, unusable(err)
}

// unusable returns the answer to an invitation that is not valid, and another error as it is.
func unusable(err error) error {
	for _, invalid := range []error{
		invitations.ErrInvalid, accounts.ErrNotInFile, accounts.ErrOtherHash,
	} {
		if errors.Is(err, invalid) {
			return web.Refused(web.CredentialInvitation, &web.Error{
				Status: http.StatusBadRequest, Cause: err, Problem: pages.ProblemInvitation,
				Detail: "This link is not valid, or not valid any more. Ask for a new one.",
			})
		}
	}
	return err
}

// readInvite reads the form of the page.
func readInvite(ex *web.Exchange) (token, next, again string, err error) {
	values, err := bodies.ReadForm(ex, `The form must have the fields "token", "new" and "again".`,
		invitations.TokenField, "new", "again")
	return values.Get(invitations.TokenField), values.Get("new"), values.Get("again"), err
}

// set sets the password and uses the invitation up. It returns the account as it is then.
func (i *invite) set(ex *web.Exchange, account *accounts.Account, token, next string) (*accounts.Account, error) {
	hash, err := i.options.Verifier.NewHash(ex.Request.Context(), next)
	if err != nil {
		return nil, err
	}
	// A client that leaves must not leave half a change behind.
	ctx, cancel := context.WithTimeout(ex.Store.Detached(), endpoint.ChangeTime)
	defer cancel()
	editor := i.options.Editor
	replace := accounts.SetPasswordHash(account, hash)
	var ended []*login.Login
	err = editor.Edit(ctx, accounts.Edit{
		Username: account.Username,
		Change: func(a *accounts.Account) error {
			if a.Disabled {
				return invitations.ErrInvalid
			}
			return replace(a)
		},
		// The invitation last, so that a store that does not answer costs no invitation. The
		// accounts are those in use now, which another request may have changed.
		Ready: func() (err error) {
			if ended, err = i.options.Users.EndAll(ctx, account.Username); err == nil {
				_, err = editor.Invitations().Redeem(ctx, token)
			}
			return err
		},
	})
	i.options.Logout.Ended(ex, ended)
	if err != nil {
		return nil, unusable(err)
	}
	ex.Audit("invitation_used", subjectOf(account))
	changed, ok := editor.Accounts().Lookup(account.Username)
	if !ok { // an operator has disabled it meanwhile
		return nil, unusable(invitations.ErrInvalid)
	}
	return changed, nil
}

// admit signs the user in who has set a password, and leads them to their applications, or to
// their account if there are none. An account with factors needs one.
func (i *invite) admit(ex *web.Exchange, account *accounts.Account) error {
	site, first := i.options.Site, "account"
	if site.Start != "" {
		first = config.EndpointApps
	}
	then := places.Return{Path: site.Own(first)}
	switch {
	case !i.options.Used[policy.Session]:
		ex.Redirect(http.StatusSeeOther, site.WithReturn(site.Own("signin"), then))
		return nil
	case account.Factors.Any():
		return i.second.ask(ex, account, &loginForm{form: true, then: then})
	}
	return i.entrance.admit(ex, &arrival{
		account: account, methods: []string{factors.Password}, mechanisms: []policy.Mechanism{policy.Session},
		then: then, page: true,
	})
}

// write answers with the page. The next request must not tell its address, which has the token.
func (i *invite) write(
	ex *web.Exchange, status int, account *accounts.Account, token string, notice pages.ManageNotice,
) {
	ex.Header().Set("Referrer-Policy", "strict-origin") // with no-referrer, the form would have no origin either
	page := pages.Invite{
		Username: account.Username, Action: i.options.Site.Own(invitations.Page), Token: token, Notice: notice,
	}
	ex.Page(status, func(p *pages.Pages, w io.Writer) error { return p.Invite(w, page) })
}
