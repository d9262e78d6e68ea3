package pages

import (
	"io"
	"slices"

	"authgate/policy"
)

// People is the page where users look after the accounts of others. Without Writable, nothing
// can be changed.
type People struct {
	User           User
	CSRFToken      string // in each form, unless empty
	AccountURL     string // of the user's own page
	Action         string // the beginning of the URL of each form: add, invite, disable and so on follow
	Writable       bool
	SignInAgainURL string   // leads to the changes through a sign-in; empty: none is needed
	Roles          []string // that the user can give
	People         []PersonOfList
	Notice         PeopleNotice
	Link, LinkFor  string // of an invitation that was made just now, and for whom
}

// PersonOfList is one account.
type PersonOfList struct {
	Username, Name, Email string
	Roles                 []string
	Ends                  policy.Ends
	Disabled, Ended       bool
	Factors, Sessions     int
	Self                  bool         // it is the user's own
	Fixed                 bool         // it is in the configuration, and not in the file of accounts
	OutOfReach            PeopleNotice // why the user cannot change it; PeopleNothing: they can
}

// Has reports whether the account has a role.
func (p PersonOfList) Has(role string) bool { return slices.Contains(p.Roles, role) }

// PeopleNotice is the notice about a change, or a failed one.
type PeopleNotice int

// The notices. From PeopleName on, nothing was done.
const (
	PeopleNothing PeopleNotice = iota
	PeopleDisabled
	PeopleEnabled
	PeopleRoles      // the account has other roles
	PeopleReset      // the account has no second factor
	PeopleEnded      // the logins have ended
	PeopleName       // an account cannot have that name
	PeopleExists     // there is such an account
	PeopleUnknown    // there is no such account
	PeopleGives      // the user does not have a role that they want to give
	PeopleReach      // the account has a role that the user does not have
	PeopleOpens      // the account opens something that the user's own does not
	PeopleSelf       // users cannot do that to themselves
	PeopleIsDisabled // the account must be enabled first
	PeopleLends      // the user has a role that they want to give not for that long
	PeopleLonger     // the account has a role for longer than the user
	PeopleHasEnded   // the account has ended
	PeopleTime       // not a time or duration
	PeopleFixed      // the account cannot be changed here
)

// Error reports whether nothing was done.
func (n PeopleNotice) Error() bool { return n >= PeopleName }

// OfName reports whether an account was not added because of its name.
func (n PeopleNotice) OfName() bool { return n == PeopleName || n == PeopleExists }

// peopled returns the text of a notice.
func (l *texts) peopled(n PeopleNotice) (string, error) {
	switch n {
	case PeopleNothing:
		return "", nil
	case PeopleDisabled:
		return l.text("people.done.disable")
	case PeopleEnabled:
		return l.text("people.done.enable")
	case PeopleRoles:
		return l.text("people.done.roles")
	case PeopleReset:
		return l.text("people.done.reset")
	case PeopleEnded:
		return l.text("people.done.end")
	case PeopleName:
		return l.text("people.bad.name")
	case PeopleExists:
		return l.text("people.bad.exists")
	case PeopleUnknown:
		return l.text("people.bad.unknown")
	case PeopleGives:
		return l.text("people.bad.gives")
	case PeopleReach:
		return l.text("people.bad.reach")
	case PeopleOpens:
		return l.text("people.bad.opens")
	case PeopleSelf:
		return l.text("people.bad.self")
	case PeopleIsDisabled:
		return l.text("people.bad.disabled")
	case PeopleLends:
		return l.text("people.bad.lends")
	case PeopleLonger:
		return l.text("people.bad.longer")
	case PeopleHasEnded:
		return l.text("people.bad.ended")
	case PeopleTime:
		return l.text("people.bad.time")
	}
	return l.text("people.bad.fixed")
}

// People writes the page.
func (p *Pages) People(w io.Writer, page People) error { return p.render(w, "people", page) }

// Invite is the page of an invitation, where its user sets a password.
type Invite struct {
	Username string
	Action   string // gets token, new and again
	Token    string
	Notice   ManageNotice // why the password was refused
}

// Invite writes the page.
func (p *Pages) Invite(w io.Writer, page Invite) error { return p.render(w, "invite", page) }
