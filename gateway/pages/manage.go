package pages

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"authgate/policy"
)

// ManagePart is one of the pages of the user's account.
type ManagePart int

// The parts of the account.
const (
	ManageLogins   ManagePart = iota // who the user is, and the logins
	ManagePassword                   // a new password
	ManageFactors                    // what the user has beside the password
	ManagePrograms                   // API tokens, and the applications that the user has let in
)

// Title returns the name of the text that is the title of the part.
func (p ManagePart) Title() string {
	switch p {
	case ManagePassword:
		return "manage.password"
	case ManageFactors:
		return "factors.title"
	case ManagePrograms:
		return "manage.programs"
	}
	return "account.title"
}

// PartLink leads to one of the parts that a user has.
type PartLink struct {
	Part ManagePart
	URL  string
}

// Manage is a page where users see and change their own account. A part without its action cannot
// be changed, or is left out.
type Manage struct {
	Part                ManagePart
	Parts               []PartLink // to choose from
	User                User
	Email               string
	Roles               []string
	Ends                policy.Ends
	Mechanism, Provider string
	PeopleURL           string // of the page where the user looks after accounts; empty: they do not
	AppsURL             string // of the page with the user's applications; empty: there is none
	CSRFToken           string // in each form, unless empty
	Notice              ManageNotice
	Logins              []OwnLogin
	EndAction           string      // gets id, or others=true and tokens=true
	PasswordAction      string      // gets current, new and again
	Factors             *OwnFactors // of their part
	TokenAction         string      // gets name, expires_in and roles
	SignInAgainURL      string      // leads to TokenAction through a sign-in; empty: none is needed
	RevokeAction        string      // gets id
	Tokens              []OwnToken
	Clients             []OwnClient
	ClientAction        string   // gets client_id
	NewToken, TokenName string   // a token that was made just now, and its name
	NewTokenPlain       bool     // it has no role
	TokenRoles          []string // that a token can have
	Warns               bool     // codes of the user's app have stopped to count, or had not long ago
}

// OwnLogin is one login of the user of the page.
type OwnLogin struct {
	ID                     string
	Current                bool
	Mechanism, Provider    string
	Client, UserAgent      string // empty if unknown
	Created, Used, Expires time.Time
}

// OwnClient is one application that the user of the page has let in.
type OwnClient struct {
	ID, Name  string
	Resources []string // an empty one is all of the service
	Since     time.Time
}

// OwnToken is one API token of the user of the page.
type OwnToken struct {
	ID, Name               string
	Roles                  []string
	Created, Used, Expires time.Time // Used is zero before the first use
}

// ManageNotice is the notice about a change, or a failed one.
type ManageNotice int

// The notices. From ManageWrong on, nothing was done.
const (
	ManageNothing         ManageNotice = iota
	ManageEnded                        // one login has ended
	ManageEndedOthers                  // all other logins have ended
	ManageEndedEverywhere              // all other logins and the tokens have ended
	ManageChanged                      // the password is changed
	ManageRevoked                      // a token is revoked
	ManageClient                       // an application
	ManagePasskey                      // a passkey is added
	ManageFactor                       // a factor is removed
	ManageWrong                        // the current password is wrong
	ManageShort                        // the new password is too short
	ManageLong                         // the new password is too long
	ManageDiffers                      // the new password and its repetition differ
	ManageWrongCode                    // the code does not confirm the app
	ManageNoPending                    // no app waits for a code
	ManagePasskeyRefused               // the passkey is not acceptable
	ManageTokenRefused                 // the name, the time or a role of a token is not possible
	ManageTooManyTokens
)

// Error reports whether nothing was done.
func (n ManageNotice) Error() bool { return n >= ManageWrong }

// OfPassword reports whether the password was not changed.
func (n ManageNotice) OfPassword() bool { return n >= ManageWrong && n <= ManageDiffers }

// OfFactor reports whether no factor was added.
func (n ManageNotice) OfFactor() bool { return n >= ManageWrongCode && n <= ManagePasskeyRefused }

// OfToken reports whether a token was not made.
func (n ManageNotice) OfToken() bool { return n >= ManageTokenRefused }

// Elsewhere reports whether there are logins besides the current one, or API tokens.
func (m Manage) Elsewhere() bool {
	other := slices.ContainsFunc(m.Logins, func(l OwnLogin) bool { return !l.Current })
	return m.EndAction != "" && (other || len(m.Tokens) > 0)
}

// Manage writes a page of the user's account.
func (p *Pages) Manage(w io.Writer, page Manage) error { return p.render(w, "manage", page) }

// managed returns the text of a notice.
func (l *texts) managed(n ManageNotice) (string, error) {
	switch n {
	case ManageNothing:
		return "", nil
	case ManageEnded:
		return l.text("manage.done.login")
	case ManageEndedOthers:
		return l.text("manage.done.logins")
	case ManageEndedEverywhere:
		return l.text("manage.done.everywhere")
	case ManageChanged:
		return l.text("manage.done.password")
	case ManageRevoked:
		return l.text("manage.done.token")
	case ManageClient:
		return l.text("manage.done.client")
	case ManagePasskey, ManageFactor, ManageWrongCode, ManageNoPending, ManagePasskeyRefused:
		return l.factors(n)
	case ManageWrong:
		return l.text("manage.wrong")
	case ManageShort:
		return l.text("manage.short")
	case ManageLong:
		return l.text("manage.long")
	case ManageDiffers:
		return l.text("manage.differs")
	case ManageTooManyTokens:
		return l.text("manage.tokens.many")
	}
	return l.text("manage.tokens.refused")
}

// Programs and systems as they name themselves in User-Agent, in the order in which
// they count: many name others too. The name is the one that users know.
var (
	browsers = []struct{ mark, name string }{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Vivaldi/", "Vivaldi"},
		{"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chromium/", "Chromium"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	}
	systems = []struct{ mark, name string }{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"},
		{"Mac OS X", "macOS"}, {"Linux", "Linux"},
	}
	program = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_. -]{0,39}`)
)

// Program returns the usual names of a program and its system by its User-Agent. Either is empty if
// it is not known.
func Program(agent string) (name, system string) {
	if !strings.HasPrefix(agent, "Mozilla/") {
		return strings.TrimSpace(program.FindString(agent)), ""
	}
	for _, b := range browsers {
		if !strings.Contains(agent, b.mark) {
			continue
		}
		for _, s := range systems {
			if strings.Contains(agent, s.mark) {
				return b.name, s.name
			}
		}
		return b.name, ""
	}
	return "", ""
}

// device returns the usual name of a device by its User-Agent.
func (l *texts) device(agent string) (string, error) {
	switch name, system := Program(agent); {
	case name == "":
		return l.text("manage.device.unknown")
	case system == "":
		return name, nil
	default:
		return l.text("manage.device", "browser", name, "system", system)
	}
}
