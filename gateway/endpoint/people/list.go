package people

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// person describes an account to those who look after accounts.
type person struct {
	Username    string   `json:"username"`
	Name        string   `json:"name"`
	Email       string   `json:"email"`
	Roles       []string `json:"roles"`
	Disabled    bool     `json:"disabled"`
	policy.Ends          // of the account and of its roles
	Factors     int      `json:"factors"`  // passkeys, and one for one-time codes
	Sessions    int      `json:"sessions"` // live logins

	account *accounts.Account
}

// infos returns the descriptions of all accounts, by name.
func (p *page) infos(ex *web.Exchange) ([]person, error) {
	all := slices.SortedFunc(p.accounts.Everyone(), func(a, b *accounts.Account) int {
		return cmp.Or(strings.Compare(policy.FoldName(a.Username), policy.FoldName(b.Username)),
			strings.Compare(a.Username, b.Username))
	})
	names := make([]string, len(all))
	for i, account := range all {
		names[i] = account.Username
	}
	sessions, err := p.overview.Counts(&ex.Store, names)
	if err != nil {
		return nil, err
	}
	infos, now := make([]person, len(all)), p.options.Now()
	for i, account := range all {
		roles, ends := account.Current(now)
		infos[i] = person{
			Username: account.Username, Name: account.Name, Email: account.Email,
			Roles: append([]string{}, roles...), Disabled: account.Disabled,
			Ends:    ends,
			Factors: account.Factors.Count(), Sessions: sessions[i], account: account,
		}
	}
	return infos, nil
}

// list is GET /account/people. A browser gets a page.
func (p *page) list(ex *web.Exchange) error {
	if web.Negotiate(ex.Request) == web.TypeHTML {
		return p.write(ex, http.StatusOK, func(view *pages.People) {
			view.Notice = doneNotice(ex.QueryValue(endpoint.DoneField))
		})
	}
	infos, err := p.infos(ex)
	if err != nil {
		return err
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string][]person{"people": infos})
	return nil
}

// write answers with the page, as show changes it.
func (p *page) write(ex *web.Exchange, status int, show func(*pages.People)) error {
	infos, err := p.infos(ex)
	if err != nil {
		return err
	}
	id, own := ex.Identity, p.options.Site.Own
	view := pages.People{
		User: ex.User(id), CSRFToken: p.options.CrossSite.Token(ex, id.Login), AccountURL: own("account"),
		Roles:    id.Roles,
		Writable: p.options.Editor.Writable(),
	}
	view.SignInAgainURL = p.options.FreshAgain(id, config.EndpointPeople)
	view.Action = own(config.EndpointPeople) + "/"
	now := p.options.Now()
	for _, info := range infos {
		view.People = append(view.People, pages.PersonOfList{
			Username: info.Username, Name: info.Name, Email: info.Email, Roles: info.Roles, Disabled: info.Disabled,
			Ends: info.Ends, Ended: info.account.Ended(now),
			Factors: info.Factors, Sessions: info.Sessions, Self: isSelf(id, info.Username),
			Fixed: !p.options.Editor.Has(info.Username), OutOfReach: noticeOf(p.reaches(id, info.account)),
		})
	}
	show(&view)
	ex.Page(status, func(set *pages.Pages, w io.Writer) error { return set.People(w, view) })
	return nil
}

// isSelf reports whether the local account of that name belongs to the user.
func isSelf(id *policy.Identity, username string) bool {
	return id.Subject == policy.LocalProvider+":"+username
}

// outlasts reports whether an account with those ends has one of its roles for longer than the user.
func outlasts(roles []string, ends policy.Ends, user *policy.Identity) bool {
	return slices.ContainsFunc(roles, func(role string) bool {
		limit, ending := user.Ends.Roles[role]
		theirs := (&policy.Identity{Roles: []string{role}, Ends: ends}).Until()
		return ending && (theirs.IsZero() || theirs.After(limit))
	})
}

// lacksRole reports whether the user does not have one of the roles.
func lacksRole(id *policy.Identity, roles []string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return !slices.Contains(id.Roles, role) })
}
