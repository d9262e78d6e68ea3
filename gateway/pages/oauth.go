package pages

import (
	"html/template"
	"io"
)

// Consent is the page where a user decides the permissions of an application.
type Consent struct {
	User     User
	Client   string // the application's name
	Known    bool   // the operator has configured it, so that its name is not what it calls itself
	Redirect string // the host that the user goes on to; empty for a device
	Resource string // the address that the application gets access to; empty: all of this service
	Who      bool   // instead of Resource: the application only learns who the user is
	Scopes   []string
	Code     string // that a device shows; empty for other applications
	// Action gets decision, seal, user_code unless Code is empty, and csrf_token unless CSRFToken
	// is empty.
	Action, Seal, CSRFToken string
}

// Consent writes the page.
func (p *Pages) Consent(w io.Writer, page Consent) error { return p.render(w, "consent", page) }

// Leave is the page for a user whom an application wants to go on to its own address, and who has
// not allowed it anything: anybody may have led the user here.
type Leave struct {
	Host string // of the address
	// URL is the address. The caller makes sure that its scheme is one that an application may have:
	// html/template knows none of applications.
	URL                template.URL
	SignedOut, Refused bool   // why the user goes on; neither: the request of the application has failed
	Detail             string // why it has failed, in English; empty: no more is known
}

// Leave writes the page.
func (p *Pages) Leave(w io.Writer, page Leave) error { return p.render(w, "leave", page) }

// FormPost is the page that takes the answer for an application on, as a form (OAuth 2.0 Form Post
// Response Mode).
type FormPost struct {
	Action template.URL // as Leave.URL
	Fields []FormField
}

// FormField is a field of a form that users do not see.
type FormField struct{ Name, Value string }

// FormPost writes the page.
func (p *Pages) FormPost(w io.Writer, page FormPost) error { return p.render(w, "formpost", page) }

// Device is the page where a user enters the code that a device shows.
type Device struct {
	User              User
	Code              string // known already
	Wrong             bool   // the code
	Decided, Allowed  bool   // what the user has decided, and for which application
	Client            string
	Action, CSRFToken string
}

// Device writes the page.
func (p *Pages) Device(w io.Writer, page Device) error { return p.render(w, "device", page) }

// scope returns the meaning of a scope to a user, or its name if the operator has chosen it.
func (l *texts) scope(name string) (string, error) {
	switch name {
	case "openid":
		return l.text("consent.scope.openid")
	case "profile":
		return l.text("consent.scope.profile")
	case "email":
		return l.text("consent.scope.email")
	case "groups":
		return l.text("consent.scope.groups")
	case "offline_access":
		return l.text("consent.scope.offline")
	}
	return name, nil
}
