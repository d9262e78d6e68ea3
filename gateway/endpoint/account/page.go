package account

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/login"
	"authgate/gateway/login/apitokens"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// Values of endpoint.DoneField.
const (
	doneLogin      = "login"
	doneOthers     = "logins"
	doneEverywhere = "everywhere"
	donePassword   = "password"
	doneToken      = "token"
	donePasskey    = "passkey"
	doneFactor     = "factor"
	doneClient     = "client"
)

// pageOf returns the name of the page of a part, with its parameter.
func pageOf(part pages.ManagePart) string {
	switch part {
	case pages.ManagePassword:
		return "account?" + places.PartField + "=password"
	case pages.ManageFactors:
		return factorsPage
	case pages.ManagePrograms:
		return programsPage
	}
	return "account"
}

// Names of the pages where a user comes back to whose change needs another sign-in.
const (
	factorsPage  = "account?" + places.PartField + "=factors"
	programsPage = "account?" + places.PartField + "=programs"
)

// page has the pages where users see and change their own accounts.
type page struct {
	options  *Options
	overview *login.Overview
	tokens   *apitokens.Set
}

// done leads a browser back to the page of a part, after a form there has done something.
func (p *page) done(ex *web.Exchange, what string) {
	place := places.WithParameter(p.options.Site.Own("account"), endpoint.DoneField, what)
	ex.Redirect(http.StatusSeeOther, p.options.Site.WithReturn(place, ex.ReadReturn(ex.QueryValue)))
}

// notice returns the notice of the page about the form before.
func (p *page) notice(ex *web.Exchange) pages.ManageNotice {
	return map[string]pages.ManageNotice{
		doneLogin: pages.ManageEnded, doneOthers: pages.ManageEndedOthers,
		doneEverywhere: pages.ManageEndedEverywhere, donePassword: pages.ManageChanged, doneToken: pages.ManageRevoked,
		donePasskey: pages.ManagePasskey, doneFactor: pages.ManageFactor, doneClient: pages.ManageClient,
	}[ex.QueryValue(endpoint.DoneField)]
}

// owner returns the local account of an identity. Users of providers have none.
func (p *page) owner(id *policy.Identity) (*accounts.Account, bool) {
	if id.Provider != policy.LocalProvider {
		return nil, false
	}
	return p.options.Users.Accounts.Lookup(id.Username)
}

// changeable returns the account of a user if it can be changed here.
func (p *page) changeable(id *policy.Identity) (*accounts.Account, bool) {
	owner, ok := p.owner(id)
	return owner, ok && p.options.Editor.Writable() && p.options.Editor.Has(owner.Username)
}

// mayChange returns why a user has no account that can be changed: the user of a provider is
// told the detail, and for another reason the error is that of fixed.
func (p *page) mayChange(id *policy.Identity, detail string, fixed func(error) error) error {
	owner, ok := p.owner(id)
	switch {
	case !ok:
		return &web.Error{
			Status: http.StatusForbidden, Detail: detail, Cause: errors.New("the user signed in at a provider"),
		}
	case !p.options.Editor.Has(owner.Username):
		return fixed(errors.New("the account is not in accounts.file"))
	}
	return nil
}

// writable returns the error of fixed if no account can be changed.
func (p *page) writable(fixed func(error) error) error {
	if !p.options.Editor.Writable() {
		return fixed(errors.New("accounts.file is not set, or cannot be replaced"))
	}
	return nil
}

// logins returns the live logins of the user, the current one first.
func (p *page) logins(ex *web.Exchange, id *policy.Identity) ([]login.LiveLogin, error) {
	all, err := p.overview.List(&ex.Store, id)
	if err != nil {
		return nil, err
	}
	for i, l := range all {
		if l.ID == id.Login {
			l.LastUsed = p.options.Now() // by this request
			copy(all[1:i+1], all[:i])
			all[0] = l
		}
	}
	return all, nil
}

// parts returns the parts that a user has. A token may only read, and sees the logins alone.
func (p *page) parts(id *policy.Identity) []pages.ManagePart {
	parts := []pages.ManagePart{pages.ManageLogins}
	if id.Mechanism == policy.Bearer {
		return parts
	}
	if _, ok := p.changeable(id); ok {
		parts = append(parts, pages.ManagePassword)
		if proved := p.options.Proofs; proved.Site != nil || proved.Issuer != "" {
			parts = append(parts, pages.ManageFactors)
		}
	}
	if p.tokens.MayOwn(id) || p.options.Consents != nil {
		parts = append(parts, pages.ManagePrograms)
	}
	return parts
}

// part returns the part that a user asks for, or was at when a form did something, or where they
// are led to add a second factor. It is that of the logins if there is no such part.
func (p *page) part(ex *web.Exchange, id *policy.Identity) pages.ManagePart {
	part := map[string]pages.ManagePart{
		"password": pages.ManagePassword, "factors": pages.ManageFactors, "programs": pages.ManagePrograms,
	}[ex.QueryValue(places.PartField)]
	switch ex.QueryValue(endpoint.DoneField) {
	case donePassword:
		part = pages.ManagePassword
	case donePasskey, doneFactor:
		part = pages.ManageFactors
	case doneToken, doneClient:
		part = pages.ManagePrograms
	}
	if ex.ReadReturn(ex.QueryValue).Demand.Factors > 1 {
		part = pages.ManageFactors
	}
	if !slices.Contains(p.parts(id), part) {
		return pages.ManageLogins
	}
	return part
}

// write answers with the page of a part, as show changes it.
func (p *page) write(
	ex *web.Exchange, id *policy.Identity, status int, part pages.ManagePart, show func(*pages.Manage),
) error {
	view := pages.Manage{Part: part, User: ex.User(id), CSRFToken: p.options.CrossSite.Token(ex, id.Login)}
	if parts := p.parts(id); len(parts) > 1 {
		for _, one := range parts {
			view.Parts = append(view.Parts, pages.PartLink{Part: one, URL: p.options.Site.Own(pageOf(one))})
		}
	}
	if owner, ok := p.owner(id); ok {
		var err error
		if view.Warns, err = p.options.Proofs.Warns(&ex.Store, owner); err != nil {
			return err
		}
	}
	if err := p.fill(ex, id, &view); err != nil {
		return err
	}
	show(&view)
	ex.Page(status, func(set *pages.Pages, w io.Writer) error { return set.Manage(w, view) })
	return nil
}

// fill adds the content and the forms of its part of the account.
func (p *page) fill(ex *web.Exchange, id *policy.Identity, view *pages.Manage) error {
	switch view.Part {
	case pages.ManagePassword:
		view.PasswordAction = p.options.Site.Own("account/password")
		return nil
	case pages.ManageFactors:
		p.offerFactors(ex, id, view)
		return nil
	case pages.ManagePrograms:
		if err := p.offerClients(ex, id, view); err != nil {
			return err
		}
		return p.offerTokens(ex, id, view)
	}
	return p.showLogins(ex, id, view)
}

// showLogins adds who the user is, and the logins.
func (p *page) showLogins(ex *web.Exchange, id *policy.Identity, view *pages.Manage) error {
	view.Email, view.Roles, view.Mechanism = id.Email, id.Roles, string(id.Mechanism)
	view.Ends = id.OwnEnds()
	view.Provider = p.options.ProviderTitle(id.Provider)
	logins, err := p.logins(ex, id)
	if err != nil {
		return err
	}
	for _, l := range logins {
		shown := pages.OwnLogin{
			ID: l.ID, Current: l.ID == id.Login, Mechanism: string(l.Mechanism),
			Provider:  p.options.ProviderTitle(l.Provider),
			UserAgent: l.Device.UserAgent, Created: l.Created, Used: l.LastUsed, Expires: l.Expires,
		}
		if l.Device.Client.IsValid() {
			shown.Client = l.Device.Client.String()
		}
		view.Logins = append(view.Logins, shown)
	}
	if p.options.Apps {
		view.AppsURL = p.options.Site.Own(config.EndpointApps)
	}
	if id.Mechanism == policy.Bearer {
		return nil
	}
	if p.looksAfterPeople(ex, id) {
		view.PeopleURL = p.options.Site.Own(config.EndpointPeople)
	}
	view.EndAction = p.options.Site.Own("account/sessions/end")
	return p.offerTokens(ex, id, view) // which end with the logins
}

// looksAfterPeople reports whether a user looks after accounts, also if that needs a sign-in
// that proves more.
func (p *page) looksAfterPeople(ex *web.Exchange, id *policy.Identity) bool {
	if p.options.Admins == nil {
		return false
	}
	request := ex.Canonical
	request.Method = http.MethodGet // as for the page
	outcome := p.options.Admins.Decide(id, &request).Outcome
	return outcome == policy.Allow || outcome == policy.StepUp
}

// offerTokens adds the API tokens of the user.
func (p *page) offerTokens(ex *web.Exchange, id *policy.Identity, view *pages.Manage) error {
	owner, err := p.tokens.Owner(&ex.Store, id)
	if errors.Is(err, apitokens.ErrNoOwner) {
		return nil
	}
	if err != nil {
		return err
	}
	view.TokenRoles = owner.Roles()
	view.TokenAction, view.RevokeAction = p.options.Site.Own("account/tokens"),
		p.options.Site.Own("account/tokens/revoke")
	view.SignInAgainURL = p.options.FreshAgain(id, programsPage)
	tokens, err := p.tokens.List(&ex.Store, owner)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		view.Tokens = append(view.Tokens, pages.OwnToken{
			ID: t.ID, Name: t.Name, Roles: t.Roles, Created: t.Created, Used: t.LastUsed, Expires: t.Expires,
		})
	}
	return nil
}

// refuse answers a form of the page of a part with that page, which names the mistake. Other
// requests get err.
func (p *page) refuse(ex *web.Exchange, part pages.ManagePart, status int, notice pages.ManageNotice, err error) error {
	if !endpoint.ByPage(ex) || notice == pages.ManageNothing {
		return err
	}
	ex.Again = p.options.Site.Own(pageOf(part))
	failed := p.write(ex, ex.Identity, status, part, func(view *pages.Manage) { view.Notice = notice })
	if failed != nil {
		return failed
	}
	ex.Failed(err, status)
	return nil
}
