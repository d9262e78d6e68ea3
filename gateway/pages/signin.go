package pages

import (
	"io"
	"time"
	"unicode"
)

// Notice is the notice above the form of the sign-in page.
type Notice int

// The notices.
const (
	_               Notice = iota // nothing
	NoticeWrong                   // the user name or the password was wrong
	NoticeThrottled               // too many attempts failed; see SignIn.Wait
	NoticeEnded                   // the session has ended
	NoticeFresh                   // the user is signed in, and must prove it once more
	NoticeFactors                 // the same, with two factors
	NoticeAddFactor               // the same, to add a second factor then
	NoticeNoCookie                // a sign-in succeeded, and the browser did not send its cookie
	NoticeCode                    // the code of the second step was not accepted
	NoticePasskey                 // the passkey was not accepted
	NoticeStopped                 // codes of the app do not count any more
)

// Error reports whether something went wrong.
func (n Notice) Error() bool {
	switch n {
	case NoticeWrong, NoticeThrottled, NoticeNoCookie, NoticeCode, NoticePasskey, NoticeStopped:
		return true
	}
	return false
}

// Wrong reports whether the input was wrong.
func (n Notice) Wrong() bool { return n == NoticeWrong || n == NoticeCode }

// notice returns the text of a notice.
func (l *texts) notice(n Notice, wait time.Duration) (string, error) {
	switch n {
	case NoticeWrong:
		return l.text("signin.wrong")
	case NoticeThrottled:
		after, err := l.wait(wait)
		if err != nil {
			return "", err
		}
		return l.text("signin.throttled", "wait", after)
	case NoticeEnded:
		return l.text("signin.ended")
	case NoticeFresh:
		return l.text("signin.fresh")
	case NoticeFactors:
		return l.text("signin.factors")
	case NoticeAddFactor:
		return l.text("signin.factors.add")
	case NoticeNoCookie:
		return l.text("signin.nocookie")
	case NoticeCode:
		return l.text("code.wrong")
	case NoticePasskey:
		return l.text("passkey.refused")
	case NoticeStopped:
		return l.text("code.stopped")
	}
	return "", nil
}

// SignIn has the content of the sign-in page.
type SignIn struct {
	Form
	// Action is the URL that the form is posted to, with the fields username, password and
	// remember.
	Action string
	// Host is where the user signs in to.
	Host   string
	Notice Notice
	Wait   time.Duration // of NoticeThrottled
	// Username is the initial value of the field.
	Username string
	// Current is the user who is signed in, and wants to change that; empty: none.
	Current string
	// Password shows the form for a user name and a password.
	Password bool
	// Remember offers to stay signed in, in that form. Remembered: it is ticked.
	Remember, Remembered bool
	// Passkey offers to sign in with a passkey, also when a field is filled in; nil: not.
	Passkey *PasskeyForm
	// Providers are offered as links, in this order.
	Providers []Provider
}

// PasskeyForm is where a script gets the options of a passkey, and where it posts the answer
// in the field credential, with the fields of a Form.
type PasskeyForm struct{ Action, Options string }

// Form has the hidden fields of the forms of a sign-in; empty ones are left out.
type Form struct {
	// ReturnTo is the path to go to once signed in, or the URL of another host of
	// the gateway. Binding is the browser that waits for a session there.
	ReturnTo, Binding string
	// Elsewhere tells that another site began the sign-in.
	Elsewhere bool
	// Factors and MaxAge are the demand of the sign-in; empty: no more than usual.
	Factors, MaxAge string
}

// Code is the second step of a sign-in, after the password. It does not have the password.
type Code struct {
	Form
	// Action is the URL that the form is posted to, with the fields code and step, and
	// remember if it is Remembered.
	Action, Step string
	Remembered   bool
	Username     string
	TOTP         bool         // the user has an app that shows codes, and these count
	Recovery     bool         // the user has recovery codes
	Passkey      *PasskeyForm // nil: the user has none
	BackURL      string       // the first step
	Notice       Notice
	Wait         time.Duration // of NoticeThrottled
}

// Code writes the page of the second step.
func (p *Pages) Code(w io.Writer, page Code) error { return p.render(w, "code", page) }

// Provider is one identity provider to sign in with.
type Provider struct {
	Title string // shown to users
	URL   string // starts the delegated login
}

// SignIn writes the sign-in page.
func (p *Pages) SignIn(w io.Writer, page SignIn) error { return p.render(w, "signin", page) }

// User is who is signed in. The zero User means that no user is signed in.
type User struct {
	Username string
	Name     string // empty: unknown
	// LogoutAction is the URL that the sign-out button is posted to, with the
	// field csrf_token unless LogoutToken is empty. Without it there is no button.
	LogoutAction, LogoutToken string
}

// String returns the name and the user name.
func (u User) String() string {
	if u.Name == "" || u.Name == u.Username {
		return u.Username
	}
	return u.Name + " (" + u.Username + ")"
}

// Initial returns the first letter of the name, or of the user name.
func (u User) Initial() string {
	for _, r := range u.String() {
		return string(unicode.ToUpper(r))
	}
	return ""
}

// SignedIn is for a user who asks for the sign-in page, and is signed in.
type SignedIn struct {
	User        User
	Host        string // where the user goes on
	ContinueURL string
	SwitchURL   string // the form, to sign in with another account
	Unbegun     bool   // another browser may have begun the sign-in at the host
	// Asked is the provider at which another site asks the user to sign in, instead of
	// SwitchURL; nil: none does.
	Asked *Provider
}

// SignedIn writes the page.
func (p *Pages) SignedIn(w io.Writer, page SignedIn) error { return p.render(w, "signedin", page) }

// ConfirmLogout is the confirmation before signing out. It is needed if another
// site may have sent the browser there.
type ConfirmLogout struct {
	// Action is the URL that the sign-out button is posted to, with the field
	// csrf_token unless Token is empty.
	Action, Token string
	// Decides adds the field decision, with the value allow.
	Decides bool
}

// ConfirmLogout writes the confirmation page.
func (p *Pages) ConfirmLogout(w io.Writer, page ConfirmLogout) error {
	return p.render(w, "logout", page)
}

// SignedOut is for a user who has signed out here.
type SignedOut struct {
	// ContinueURL is where the identity provider signs them out too. The page goes
	// there by itself. Empty: they are signed out everywhere.
	ContinueURL string
	// SignInURL is the way back in.
	SignInURL string
}

// SignedOut writes the page.
func (p *Pages) SignedOut(w io.Writer, page SignedOut) error { return p.render(w, "signedout", page) }

// Onward is for a user who goes on by a step of its own, where a redirect would not
// take the cookies along, or is not allowed.
type Onward struct {
	// URL is where they go on: a path, or a place at another host of the gateway.
	URL string
}

// Onward writes the page, which redirects the browser.
func (p *Pages) Onward(w io.Writer, page Onward) error { return p.render(w, "onward", page) }

// Ask is for a user whom another site led to a sign-in. It leads on if they want
// that.
type Ask struct {
	URL   string // where they go on
	Shown string // the same, with its host
}

// Ask writes the page.
func (p *Pages) Ask(w io.Writer, page Ask) error { return p.render(w, "ask", page) }
