package pages

import (
	"io"
	"time"

	"authgate/policy"
)

// Account describes the current login to its user; empty fields are left out.
type Account struct {
	Username  string
	Name      string
	Email     string
	Roles     []string
	Ends      policy.Ends
	Mechanism string    // basic, session, bearer or oidc
	Provider  string    // where the account is stored: local, basic or a provider's name
	Expires   time.Time // when the login ends by itself; shown in UTC
	// LogoutAction is the URL that the sign-out button is posted to, with the
	// field csrf_token unless LogoutToken is empty.
	LogoutAction, LogoutToken string
}

// Account writes the page of the current login.
func (p *Pages) Account(w io.Writer, page Account) error { return p.render(w, "account", page) }
