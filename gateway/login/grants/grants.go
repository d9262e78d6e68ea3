package grants

import (
	"errors"
	"fmt"
	"time"

	"authgate/gateway/login"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/gateway/wire/jose"
	"authgate/policy"
)

// Key prefixes in the store. A secret is never part of a key: its hash is.
const (
	grantPrefix    = "grant:"        // + hash of the grant's secret
	consentsPrefix = "consents:"     // + hash of the user's subject
	devicePrefix   = "device:"       // + hash of the device code
	userCodePrefix = "usercode:"     // + hash of the user code
	revokedPrefix  = "grantrevoked:" // + jti of an access token
	vouchedPrefix  = "vouched:"      // + the claim vouched of an access token
	usedPrefix     = "vouchedby:"    // + hash of a used assertion's issuer and jti
)

// Errors of grants. Any other error means that the store failed, and decides nothing.
var (
	// ErrInvalid: a code or a token is not valid, or not any more (invalid_grant). The
	// error has the reason, for operators.
	ErrInvalid = errors.New("grants: not valid")
	// ErrNeverIssued is an ErrInvalid: no such code or token was ever given.
	ErrNeverIssued = fmt.Errorf("%w: it was never issued", ErrInvalid)
	// ErrNoConsent: the user has not consented to the scopes of a code.
	ErrNoConsent = errors.New("grants: the user has not consented")
	// ErrNoDevice: no device waits for a decision under that user code.
	ErrNoDevice = errors.New("grants: no device waits under this code")
	// The answers to a device that waits (RFC 8628, section 3.5).
	ErrPending  = errors.New("grants: the user has not decided yet")
	ErrSlowDown = errors.New("grants: the device asks too often")
	ErrDenied   = errors.New("grants: the user has refused the device")
	ErrExpired  = errors.New("grants: the device code has expired")
	// ErrNotAdmitted: the policy of the client does not let the user in.
	ErrNotAdmitted = errors.New("grants: the policy of the client does not let the user in")
)

// ReuseError is an ErrInvalid: a code was used again, or a refresh token after the
// leeway. Two parties have it, so one of them stole it, and the grant was ended.
type ReuseError struct {
	What    string // "code" or "refresh token"
	Client  string
	Subject string // of the user
	Login   string // sid
}

func (e *ReuseError) Error() string {
	return fmt.Sprintf("grants: a %s was used again, and its grant is ended", e.What)
}

// Is makes a ReuseError match ErrInvalid.
func (e *ReuseError) Is(target error) bool { return target == ErrInvalid }

func invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalid, reason) }

// Terms describe the access of a client.
type Terms struct {
	Client string `json:"client"`
	// Resource is the audience of the access tokens; empty: that of the gateway's own
	// tokens, Options.Audience.
	Resource string   `json:"resource,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	Nonce    string   `json:"nonce,omitempty"`  // of the first ID token
	OpenID   bool     `json:"openid,omitempty"` // an ID token is made for the client
	// Access is the lifetime of access tokens, and Refresh that of the grant. If Refresh is
	// 0, there is no refresh token, and the grant lives as long as its access token.
	Access  time.Duration `json:"access"`
	Refresh time.Duration `json:"refresh,omitempty"`
	// Federation is the entry of the client's federation that the client proved itself by for these
	// tokens: in a grant, for the refresh token. They end when the entry changes.
	Federation string `json:"federation,omitempty"`
}

// Options are the parts of Grants. All are required.
type Options struct {
	Store store.Store
	// Now is the clock of Store; see store.ClockOf.
	Now     func() time.Time
	Logins  *login.Logins
	Holders *login.Holders
	Keys    *jose.Keys
	Issuer  string
	// Audience is the audience of access tokens without a resource.
	Audience []string
	// Leeway is how long a second use of a refresh token counts as an accident.
	Leeway time.Duration
	// Lend returns the identity of a token with scopes: id with the roles that the scopes
	// lend. The token gets no role that id does not have, whatever Lend returns.
	Lend func(scopes []string, id *policy.Identity) *policy.Identity
	// Client returns the roles of a client that may act for itself. It reports whether
	// there is one now.
	Client func(id string) (roles []string, ok bool)
	// Counts reports whether grants to a client count, by the configuration.
	Counts func(client string) bool
	// Admits reports whether the policy of a client lets a user in, by who they are.
	Admits func(client string, user *policy.Identity) bool
	// Vouches reports whether a provider may vouch for its users at a client.
	Vouches func(provider, client string) bool
	// Federated reports whether a client has that entry of its federation, unchanged.
	Federated func(client, entry string) bool
	// Exchanges reports whether a client may exchange tokens, by the configuration.
	Exchanges func(client string) bool
	// CodeLifetime is the lifetime of codes.
	CodeLifetime time.Duration
}

// Grants keeps grants. Its caches are for one configuration.
type Grants struct {
	options  Options
	reader   *jose.Reader
	header   string                 // with which each access token begins
	verified record.Cache[verified] // by the token
}

// New returns the grants in a store.
func New(o Options) *Grants {
	return &Grants{
		options: o, header: o.Keys.Header(tokenType) + ".", verified: record.NewCache[verified](),
		reader: jose.NewReader(o.Keys, jose.ReaderOptions{
			Issuer: o.Issuer, Type: tokenType, AnyAudience: true, Leeway: record.ClockLeeway, Now: o.Now,
		}),
	}
}

// Issued has the tokens for a client.
type Issued struct {
	Access    string
	ExpiresIn time.Duration // of Access
	Refresh   string        // empty: none
	Terms     Terms         // of Access
	// Login is the login that lends, nil for a client that acts for itself.
	Login *login.Login
	// Identity is that of Access. Its Owner, if not nil, has all roles.
	Identity *policy.Identity
}
