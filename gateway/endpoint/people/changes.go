package people

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
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

// change is a change that those who look after accounts make of one.
type change struct {
	name string // of the endpoint, below config.EndpointPeople
	// edit changes the account in the file. Nil leaves the file as it is.
	edit func(*accounts.Account, *order)
	add  bool // makes the account
	// roles: the order names the roles of the account.
	roles bool
	// self: users may do it to themselves.
	self bool
	// ends ends the logins of the account.
	ends bool
	// invites answers with the link of an invitation.
	invites bool
}

// changes returns all changes.
func changes() []*change {
	return []*change{
		{name: "add", add: true, roles: true, invites: true, edit: setNew},
		{name: "invite", self: true, invites: true},
		{name: "disable", ends: true,
			edit: func(a *accounts.Account, _ *order) { a.Disabled = true }},
		{name: "enable", self: true,
			edit: func(a *accounts.Account, _ *order) { a.Disabled = false }},
		{name: "roles", roles: true, self: true, edit: setRoles},
		{name: "reset-factors", ends: true,
			edit: func(a *accounts.Account, _ *order) { a.Factors = factors.Set{} }},
		{name: "end", self: true, ends: true},
	}
}

// setNew sets the roles and the end of a new account.
func setNew(a *accounts.Account, wanted *order) { a.Roles, a.Until = wanted.roles, wanted.until }

func setRoles(a *accounts.Account, wanted *order) {
	a.GiveRoles(wanted.roles, wanted.until, wanted.now)
}

// outcome is the outcome of a change.
type outcome struct {
	account string         // the name of the account, as it is written
	ended   []*login.Login // also beside an error
	link    string         // of an invitation
}

// serveChange makes a change.
func (p *page) serveChange(ex *web.Exchange, c *change) error {
	wanted, err := readOrder(ex, c, p.options.Now())
	if err != nil {
		return p.refuse(ex, err)
	}
	// A client that leaves must not leave half a change behind.
	ctx, cancel := context.WithTimeout(ex.Store.Detached(), endpoint.ChangeTime)
	defer cancel()
	done, err := p.change(ctx, ex, c, wanted)
	p.logout.Ended(ex, done.ended)
	if err != nil {
		if refusal, is := errors.AsType[*web.Error](err); is && refusal.Status == http.StatusForbidden {
			ex.Audit("denied", slog.String("reason", web.ReasonOf(err)))
		}
		return p.refuse(ex, p.explain(ex, wanted, err))
	}
	p.audit(ex, c, wanted, &done)
	if c.add {
		if done.link, err = invite(ctx, p.options.Editor.Invitations(), done.account); err != nil {
			return err
		}
	}
	return p.answer(ex, c, &done)
}

// audit tells the audit log who has changed which account.
func (p *page) audit(ex *web.Exchange, c *change, wanted *order, done *outcome) {
	attrs := []slog.Attr{
		slog.String("change", c.name), slog.String("actor", ex.Identity.Subject),
		slog.String("subject", policy.LocalProvider+":"+done.account),
	}
	if c.roles {
		attrs = append(attrs, slog.Any("roles", wanted.roles))
	}
	if !wanted.until.IsZero() {
		attrs = append(attrs, slog.Time("until", wanted.until.UTC()))
	}
	ex.Audit("account_changed", attrs...)
}

// change makes a change, and returns its outcome.
func (p *page) change(
	ctx context.Context, ex *web.Exchange, c *change, wanted *order,
) (done outcome, err error) {
	if !p.options.Editor.Writable() {
		return done, accounts.ErrNotWritable
	}
	check := func(users []accounts.Account) error {
		account, err := p.checkChange(ctx, ex, c, wanted, users)
		done.account = wanted.username
		if account != nil {
			done.account = account.Username
		}
		return err
	}
	// Before the file changes, so that nothing has changed if the store does not answer. A
	// login that begins after it ends with the change.
	ready := func() (err error) {
		if c.ends {
			done.ended, err = p.overview.EndAll(ctx, done.account)
		}
		return err
	}
	if c.edit == nil {
		if err = check(p.inFile()); err == nil {
			err = ready()
		}
		if err == nil && c.invites {
			done.link, err = invite(ctx, p.options.Editor.Invitations(), done.account)
		}
		return done, err
	}
	err = p.options.Editor.Edit(ctx, accounts.Edit{
		Username: wanted.username, Add: c.add, Check: check, Ready: ready,
		Change: func(a *accounts.Account) error {
			c.edit(a, wanted)
			return nil
		},
	})
	return done, err
}

// invite returns the link of a new invitation.
func invite(ctx context.Context, set *invitations.Invitations, username string) (string, error) {
	link, err := set.Invite(ctx, username)
	switch {
	case errors.Is(err, invitations.ErrEnded):
		return "", hasEnded(err)
	case errors.Is(err, invitations.ErrNoAccount):
		return "", &web.Error{
			Status: http.StatusConflict, Detail: "The account is disabled. Enable it first.",
			Cause: fmt.Errorf("%w: %w", errDisabled, err),
		}
	}
	return link, err
}

// hasEnded is the answer to an order that would invite an account that has ended.
func hasEnded(cause error) error {
	return &web.Error{
		Status: http.StatusConflict, Detail: "The account has ended. Ask an operator for a later end.", Cause: cause,
	}
}

// inFile returns the accounts of the file, as they are in use.
func (p *page) inFile() (users []accounts.Account) {
	for account := range p.accounts.Everyone() {
		if p.options.Editor.Has(account.Username) {
			users = append(users, *account)
		}
	}
	return users
}

// checkChange returns the account that is to be changed, nil for a new one, and why the user may
// not change it. It goes by the accounts of the file as they are while no other change
// can be made: another one who looks after accounts may have changed those since the request
// began.
func (p *page) checkChange(
	ctx context.Context, ex *web.Exchange, c *change, wanted *order, users []accounts.Account,
) (*accounts.Account, error) {
	actor, err := p.actor(ctx, ex, users)
	if err != nil {
		return nil, err
	}
	if c.add {
		if added := (&accounts.Account{Until: wanted.until}); added.Ended(wanted.now) {
			return nil, hasEnded(invitations.ErrEnded)
		}
		return nil, p.mayBecome(actor, c, &accounts.Account{Username: wanted.username}, wanted)
	}
	at := slices.IndexFunc(users, func(a accounts.Account) bool {
		return policy.NormalName(a.Username) == wanted.username
	})
	if at < 0 {
		return nil, accounts.ErrNotInFile
	}
	account := &users[at]
	if err := p.reaches(actor, account); err != nil {
		return nil, err
	}
	if isSelf(actor, account.Username) {
		held, _ := account.Current(wanted.now)
		lost := slices.ContainsFunc(held,
			func(role string) bool { return !slices.Contains(wanted.roles, role) })
		if !c.self || c.roles && lost {
			return nil, mayNot("You cannot do this to your own account.", errSelf)
		}
	}
	return account, p.mayBecome(actor, c, account, wanted)
}

// mayBecome returns why a user must not make a change to an account.
func (p *page) mayBecome(actor *policy.Identity, c *change, account *accounts.Account, wanted *order) error {
	if c.edit == nil {
		return nil
	}
	changed := *account
	c.edit(&changed, wanted)
	err := p.reaches(actor, &changed)
	switch {
	case errors.Is(err, errReach):
		return mayNot("You can give no role that you do not have.", errGives)
	case errors.Is(err, errLonger):
		return mayNot("You have a role until a time, and can give it until then at most.", errLends)
	}
	return err
}

// reaches returns why an account is out of reach of a user: by a role, its name or the lack of a role,
// or one role for longer, it opens a route that the user's own does not. With an invitation for the
// account, or with the password that it had, the user could have that too.
func (p *page) reaches(actor *policy.Identity, account *accounts.Account) error {
	now := p.options.Now()
	roles, ends := account.Current(now)
	if lacksRole(actor, roles) {
		return mayNot("The account has a role that you do not have.", errReach)
	}
	if outlasts(roles, ends, actor) {
		return mayNot("The account has a role for longer than you.", errLonger)
	}
	current := account.At(now)
	id := current.Identity(policy.Session, "", time.Time{})
	for _, route := range p.options.Policies {
		if route.OpensMore(id, actor) {
			return mayNot("The account opens something that yours does not.",
				fmt.Errorf("%w: %s", errOpens, route.Label()))
		}
	}
	return nil
}

// actor returns who makes a change, by the accounts of the file as they are now. The error is
// that of an endpoint that is not there if they do not look after accounts any more.
func (p *page) actor(ctx context.Context, ex *web.Exchange, users []accounts.Account) (*policy.Identity, error) {
	id, err := p.options.Sessions("").Alive(ctx, &ex.Credentials)
	if err != nil {
		return nil, err // the login has ended meanwhile
	}
	now := *id
	if id.Provider == policy.LocalProvider && p.options.Editor.Has(id.Username) {
		own := func(a accounts.Account) bool { return a.Username == id.Username }
		at, clock := slices.IndexFunc(users, own), p.options.Now()
		if at < 0 || users[at].Disabled || users[at].Ended(clock) {
			return nil, auth.ErrRejected
		}
		now.Roles, now.Ends = users[at].Current(clock)
		now.Email = users[at].Email
	}
	if decision := p.options.Admins.Decide(&now, &ex.Canonical); decision.Outcome != policy.Allow {
		return nil, endpoint.NothingHere(decision.Reason)
	}
	return &now, nil
}

// Why a change is not made, as the cause of a *web.Error.
var (
	errGives    = errors.New("the user does not have a role that they want to give")
	errReach    = errors.New("the account has a role that the user does not have")
	errLends    = errors.New("the user has a role that they want to give not for that long")
	errLonger   = errors.New("the account has a role for longer than the user")
	errTime     = errors.New("not a time or duration that something can end at")
	errOpens    = errors.New("a policy lets in the account and not the user")
	errSelf     = errors.New("users cannot disable, demote or reset themselves")
	errDisabled = errors.New("the account is disabled")
	errName     = errors.New("an account cannot have that name")
	errUnknown  = errors.New("there is no such account")
	errFixed    = errors.New("the account cannot be changed here")
)

func mayNot(detail string, cause error) error {
	return &web.Error{Status: http.StatusForbidden, Detail: detail, Cause: cause}
}

// explain returns the answer to a change that was not made. Faults that only an operator can mend
// go to the log.
func (p *page) explain(ex *web.Exchange, wanted *order, err error) error {
	switch {
	case errors.Is(err, accounts.ErrNotInFile):
		for account := range p.accounts.Everyone() {
			if policy.NormalName(account.Username) == wanted.username {
				return fixedAccount("The account is in the configuration, where it cannot be changed here.", err)
			}
		}
		return &web.Error{
			Status: http.StatusNotFound, Detail: "There is no account of this name.",
			Cause: fmt.Errorf("%w: %w", errUnknown, err),
		}
	case errors.Is(err, accounts.ErrExists):
		return &web.Error{
			Status: http.StatusConflict, Cause: err,
			Detail: "There is an account of this name, or of one that differs only in case or Unicode normalization.",
		}
	case errors.Is(err, accounts.ErrNotWritable), errors.Is(err, accounts.ErrElsewhere),
		errors.Is(err, accounts.ErrOvertaken):
		p.options.Site.Service.Logger.Warn("an account cannot be changed", "subject", ex.Identity.Subject,
			"error", err.Error())
		return fixedAccount("The file of accounts cannot be changed here.", err)
	}
	return err
}

// answer tells the user the outcome. The link of an invitation is shown this once.
func (p *page) answer(ex *web.Exchange, c *change, done *outcome) error {
	form := ex.MediaType() == web.TypeForm
	switch {
	case c.invites && form:
		return p.write(ex, http.StatusOK, func(view *pages.People) {
			view.Link, view.LinkFor = done.link, done.account
		})
	case c.invites:
		ex.JSON(web.TypeJSON, http.StatusCreated, map[string]string{"url": done.link})
	case form:
		place := p.options.Site.Own(config.EndpointPeople)
		ex.Redirect(http.StatusSeeOther, places.WithParameter(place, endpoint.DoneField, c.name))
	default:
		ex.JSON(web.TypeJSON, http.StatusOK, map[string]string{"message": "Done."})
	}
	return nil
}

// refuse answers a form of the page with the page, which names the mistake. Other requests get err.
func (p *page) refuse(ex *web.Exchange, err error) error {
	notice := noticeOf(err)
	refused, ok := errors.AsType[*web.Error](err)
	if !ok || notice == pages.PeopleNothing || !endpoint.ByPage(ex) {
		return err
	}
	if failed := p.write(ex, refused.Status, func(view *pages.People) { view.Notice = notice }); failed != nil {
		return failed
	}
	ex.Failed(err, refused.Status)
	return nil
}

// noticeOf returns the notice of the page about a change that was not made.
func noticeOf(err error) pages.PeopleNotice {
	for _, known := range []struct {
		err    error
		notice pages.PeopleNotice
	}{
		{errName, pages.PeopleName}, {accounts.ErrExists, pages.PeopleExists}, {errUnknown, pages.PeopleUnknown},
		{errGives, pages.PeopleGives}, {errReach, pages.PeopleReach}, {errOpens, pages.PeopleOpens},
		{errLends, pages.PeopleLends}, {errLonger, pages.PeopleLonger}, {invitations.ErrEnded, pages.PeopleHasEnded},
		{errTime, pages.PeopleTime},
		{errSelf, pages.PeopleSelf}, {errDisabled, pages.PeopleIsDisabled}, {errFixed, pages.PeopleFixed},
	} {
		if errors.Is(err, known.err) {
			return known.notice
		}
	}
	return pages.PeopleNothing
}

// doneNotice returns the notice of the page about the change before.
func doneNotice(name string) pages.PeopleNotice {
	return map[string]pages.PeopleNotice{
		"disable": pages.PeopleDisabled, "enable": pages.PeopleEnabled, "roles": pages.PeopleRoles,
		"reset-factors": pages.PeopleReset, "end": pages.PeopleEnded,
	}[name]
}

func fixedAccount(detail string, cause error) error {
	return &web.Error{Status: http.StatusConflict, Detail: detail, Cause: fmt.Errorf("%w: %w", errFixed, cause)}
}
