package config

import (
	"net/netip"
	"net/url"
	"time"

	"authgate/gateway/config/strictyaml"
	"authgate/gateway/password"
	"authgate/policy"
)

// Config is a valid configuration. It contains all defaults, relative paths are
// resolved against the folder of the file, and ${NAME} and x_file are replaced
// by their values. It must not be changed.
type Config struct {
	PublicURL       *url.URL                `yaml:"public_url"` // https://host[:port], no path
	Listen          Listen                  `yaml:"listen"`
	TLS             TLS                     `yaml:"tls"`
	DataDir         string                  `yaml:"data_dir"`
	Store           Store                   `yaml:"store"`
	Endpoints       Endpoints               `yaml:"endpoints"`
	Basic           Basic                   `yaml:"basic"`
	Accounts        Accounts                `yaml:"accounts"`
	Session         Session                 `yaml:"session"`
	Token           Token                   `yaml:"token"`
	Providers       []Provider              `yaml:"providers"`
	Delegated       Delegated               `yaml:"delegated"`
	Upstreams       map[string]Upstream     `yaml:"upstreams"`
	IdentityHeaders IdentityHeaders         `yaml:"identity_headers"`
	Policies        map[string]*policy.Spec `yaml:"policies"`
	Routes          []Route                 `yaml:"routes"`
	Site            Site                    `yaml:"site"`
	Limits          Limits                  `yaml:"limits"`
	ShutdownDelay   time.Duration           `yaml:"shutdown_delay"`
	ShutdownTimeout time.Duration           `yaml:"shutdown_timeout"`
	Log             Log                     `yaml:"log"`
	Tracing         Tracing                 `yaml:"tracing"`

	table       *policy.Table // of Routes
	hosts       []string
	ownAccounts int                         // how many of Accounts.Users are in the main file
	path        string                      // of the file
	lookup      func(string) (string, bool) // reads an environment variable
	source      func() []byte               // its content; a function, because fmt prints unexported fields with their secrets
	sideFiles   []File
	warnings    Diagnostics
}

// Secret is a value that prints as "[redacted]" wherever it is formatted,
// logged or marshalled. Only its method Reveal returns the value.
type Secret = strictyaml.Secret

// Diagnostic is one mistake in a configuration, and Diagnostics are all of
// them. They are the error that Load and Parse return.
type (
	Diagnostic  = strictyaml.Diagnostic
	Diagnostics = strictyaml.Diagnostics
)

// File is a file of a configuration as it was when it was read.
type File = strictyaml.File

// StatFile returns a file as it is now.
func StatFile(path string) File { return strictyaml.StatFile(path) }

// Listen has the addresses of the listeners. An empty address means no listener.
type Listen struct {
	HTTPS          string         `yaml:"https"`
	HTTP3          string         `yaml:"http3"`
	HTTP           string         `yaml:"http"`
	Admin          string         `yaml:"admin"`
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	AnyHost        bool           `yaml:"any_host"`       // accept hosts that are not in Config.Hosts
	ProxyProtocol  []netip.Prefix `yaml:"proxy_protocol"` // networks of balancers
}

// TLS modes.
const (
	TLSInternal = "internal"
	TLSFiles    = "files"
	TLSACME     = "acme"
	TLSOff      = "off"
)

// TLS configures the certificate of the gateway.
type TLS struct {
	Mode         string   `yaml:"mode"`
	Certificate  string   `yaml:"certificate"`
	Key          string   `yaml:"key"`
	Domains      []string `yaml:"domains"`
	Email        string   `yaml:"email"`
	Directory    string   `yaml:"directory"`
	TrustedRoots string   `yaml:"trusted_roots"`

	OnDemand OnDemand `yaml:"on_demand"`

	HSTS time.Duration `yaml:"hsts"` // max-age of Strict-Transport-Security; 0: no header

	TrustedRootsContent []byte `yaml:"-"` // of the file, in mode acme
}

// Words returns the words that keys of the section take.
func (TLS) Words() map[string][]string {
	return map[string][]string{"mode": {TLSInternal, TLSFiles, TLSACME, TLSOff}}
}

// OnDemand bounds the certificates of names below wildcard hosts of routes, which an
// ACME authority issues when a client asks for them.
type OnDemand struct {
	Names int           `yaml:"names"` // how many names may have one
	Burst int           `yaml:"burst"` // orders at once
	Every time.Duration `yaml:"every"` // then the time between two orders
}

// Store drivers.
const (
	StoreSQLite = "sqlite"
	StoreMemory = "memory"
	StoreRedis  = "redis"
)

// Store configures the store of logins and sessions.
type Store struct {
	Driver           string        `yaml:"driver"`
	Path             string        `yaml:"path"` // absolute or under DataDir, resolved
	Addresses        []string      `yaml:"addresses"`
	SentinelMaster   string        `yaml:"sentinel_master"`
	Username         string        `yaml:"username"`
	Password         Secret        `yaml:"password"`
	SentinelUsername string        `yaml:"sentinel_username"`
	SentinelPassword Secret        `yaml:"sentinel_password"`
	TLS              bool          `yaml:"tls"`
	KeyPrefix        string        `yaml:"key_prefix"`
	MaxStaleness     time.Duration `yaml:"max_staleness"`
	EncryptionKey    Secret        `yaml:"encryption_key"` // for tokens of providers; empty: generated under DataDir
}

// Words returns the words that keys of the section take.
func (Store) Words() map[string][]string {
	return map[string][]string{"driver": {StoreSQLite, StoreMemory, StoreRedis}}
}

// Endpoints configures the paths of the gateway's own endpoints.
type Endpoints struct {
	Prefix string `yaml:"prefix"` // begins and ends with a slash
}

// Basic configures the mechanism basic.
type Basic struct {
	Realm    string      `yaml:"realm"`
	Htpasswd string      `yaml:"htpasswd"`
	Users    []BasicUser `yaml:"users"` // includes the users of the htpasswd file
}

// BasicUser is one shared credential.
type BasicUser struct {
	Username     string        `yaml:"username"`
	PasswordHash Secret        `yaml:"password_hash"` // argon2id PHC string or bcrypt
	Hash         password.Hash `yaml:"-"`             // PasswordHash, parsed
}

// Accounts are the local accounts.
type Accounts struct {
	File  string    `yaml:"file"`
	Users []Account `yaml:"users"` // includes the users of the file
}

// Account is one local account.
type Account struct {
	Username     string        `yaml:"username"`
	PasswordHash Secret        `yaml:"password_hash"` // argon2id PHC string or bcrypt
	Hash         password.Hash `yaml:"-"`             // PasswordHash, parsed
	Name         string        `yaml:"name"`
	Email        string        `yaml:"email"`
	Roles        []string      `yaml:"roles"` // no entry is empty
	Disabled     bool          `yaml:"disabled"`
}

// Values of same_site. Browsers know them by these names, too.
const (
	sameSiteLax    = "lax"
	SameSiteStrict = "strict"
	SameSiteNone   = "none"
)

// Session configures the mechanism session.
type Session struct {
	Cookie      string        `yaml:"cookie"` // with the prefix, if HostPrefix
	Lifetime    time.Duration `yaml:"lifetime"`
	Remember    time.Duration `yaml:"remember"`     // the lifetime for users who want to stay signed in; 0: they cannot
	IdleTimeout time.Duration `yaml:"idle_timeout"` // 0: off
	SameSite    string        `yaml:"same_site"`    // lax, strict or none
	HostPrefix  bool          `yaml:"host_prefix"`  // the names of all own cookies begin with __Host-
	CSRFToken   bool          `yaml:"csrf_token"`   // needed from clients that send no Sec-Fetch-Site or Origin
	Domain      string        `yaml:"domain"`       // that shares the cookies of sessions; empty: each host has its own
}

// Words returns the words that keys of the section take.
func (Session) Words() map[string][]string {
	return map[string][]string{"same_site": {sameSiteLax, SameSiteStrict, SameSiteNone}}
}

// Algorithms that sign access tokens (RFC 7518, section 3.1).
const (
	AlgorithmHS256 = "HS256"
	AlgorithmRS256 = "RS256"
)

// Ways to deliver tokens to the client.
const (
	DeliveryBody   = "body"   // in the JSON of the response
	DeliveryCookie = "cookie" // in the cookies CookieAccess and CookieRefresh
)

// Traits of a device to which refresh tokens can be bound.
const (
	BindUserAgent = "user_agent"
	BindIP        = "ip"
)

// Cookies of DeliveryCookie, without the prefix of Session.HostPrefix.
const (
	CookieAccess  = "access_token"
	CookieRefresh = "refresh_token"
)

// CookieLogin is the cookie that binds a login in progress, at a provider or from
// another host of the gateway, to the browser that started it.
const CookieLogin = "__Host-authgate_login"

// Token configures the mechanism bearer.
type Token struct {
	Algorithm       string        `yaml:"algorithm"` // HS256 or RS256
	Secret          Secret        `yaml:"secret"`
	PrivateKey      string        `yaml:"private_key"`
	Issuer          string        `yaml:"issuer"`
	Audience        []string      `yaml:"audience"`
	AccessLifetime  time.Duration `yaml:"access_lifetime"`
	RefreshLifetime time.Duration `yaml:"refresh_lifetime"`
	ReuseLeeway     time.Duration `yaml:"reuse_leeway"`
	Delivery        string        `yaml:"delivery"`     // body or cookie
	BindRefresh     []string      `yaml:"bind_refresh"` // any of user_agent, ip

	TrustedIssuers []TrustedIssuer `yaml:"trusted_issuers"`
}

// Words returns the words that keys of the section take.
func (Token) Words() map[string][]string {
	return map[string][]string{
		"algorithm":    {AlgorithmHS256, AlgorithmRS256},
		"delivery":     {DeliveryBody, DeliveryCookie},
		"bind_refresh": {BindUserAgent, BindIP},
	}
}

// Delegated configures the sessions of delegated logins.
type Delegated struct {
	Cookie          string        `yaml:"cookie"`
	Lifetime        time.Duration `yaml:"lifetime"`
	DefaultProvider string        `yaml:"default_provider"`
	APITokens       time.Duration `yaml:"api_tokens"` // how long after the last word of the provider; 0: none
}

// Upstream is an application behind the gateway.
type Upstream struct {
	URL              *url.URL         `yaml:"url"`  // http, https, h2c, unix or unix+h2c; see UnixTarget
	URLs             []*url.URL       `yaml:"urls"` // always set: only URL, if that is given
	Balance          string           `yaml:"balance"`
	Health           Health           `yaml:"health"`
	Retries          int              `yaml:"retries"` // how often a request may be sent again, to another target
	Host             string           `yaml:"host"`    // HostClient, HostTarget, or the Host that the upstream gets
	TLS              UpstreamTLS      `yaml:"tls"`     // of https targets
	RewriteResponses bool             `yaml:"rewrite_responses"`
	Timeout          time.Duration    `yaml:"timeout"`
	ConnectTimeout   time.Duration    `yaml:"connect_timeout"`
	ReuseConnections bool             `yaml:"reuse_connections"` // false: each request has its own connection
	FastPath         bool             `yaml:"fast_path"`         // false: httputil.ReverseProxy serves every request
	IdentityHeaders  *IdentityHeaders `yaml:"identity_headers"`  // always set: keys that are not given come from the top level
}

// Words returns the words that keys of an upstream take.
func (Upstream) Words() map[string][]string {
	return map[string][]string{"balance": {BalanceRoundRobin, BalanceLeastRequests, BalanceClient}}
}

// Ways to choose a target of an upstream.
const (
	BalanceRoundRobin    = "round_robin"
	BalanceLeastRequests = "least_requests" // the target with the fewest requests in flight
	BalanceClient        = "client"         // the same client, the same target
)

// Hosts that an upstream gets.
const (
	HostClient = "client" // what the client asked for
	HostTarget = "target" // that of the target's URL
)

// Health is the active check of the targets of an upstream. Without a Path there
// is none.
type Health struct {
	Path     string        `yaml:"path"` // with a query, if it has one
	Interval time.Duration `yaml:"interval"`
	Timeout  time.Duration `yaml:"timeout"`
	Status   string        `yaml:"status"`   // of a good answer: "200" or "200-399"
	Failures int           `yaml:"failures"` // in a row, until a target is unhealthy
	Host     string        `yaml:"host"`     // empty: that which the upstream's Host names

	From int `yaml:"-"` // the first status of Status
	To   int `yaml:"-"` // and the last one
}

// UpstreamTLS configures the connections to https targets.
type UpstreamTLS struct {
	CA          string `yaml:"ca"`          // file with certificates in PEM; empty: those of the system
	Certificate string `yaml:"certificate"` // of the gateway as a client, in PEM
	Key         string `yaml:"key"`
	ServerName  string `yaml:"server_name"` // empty: the host of the URL
	Fingerprint string `yaml:"fingerprint"` // trusts this certificate alone: "sha256:HEX"

	CAContent          []byte `yaml:"-"` // of the files
	CertificateContent []byte `yaml:"-"`
	KeyContent         Secret `yaml:"-"`

	SHA256 []byte `yaml:"-"` // of the certificate that Fingerprint names
}

// IdentityHeaders are the names of the headers with the identity. The gateway
// does not send a header with an empty name.
type IdentityHeaders struct {
	User      string `yaml:"user"`
	Subject   string `yaml:"subject"`
	Name      string `yaml:"name"`
	Email     string `yaml:"email"`
	Roles     string `yaml:"roles"`
	Mechanism string `yaml:"mechanism"`
	Provider  string `yaml:"provider"`
}

// Answers of a route to a request without credentials.
const (
	UnauthenticatedAuto      = "auto"
	UnauthenticatedChallenge = "challenge"
	UnauthenticatedRedirect  = "redirect"
)

// Treatment of requests that another site makes a browser send.
const (
	CrossOriginDeny  = "deny"
	CrossOriginAllow = "allow"
)

// Treatment of service workers: scripts of an application that answer for its
// host in the browser, in place of the gateway.
const (
	ServiceWorkersRefuse = "refuse"
	ServiceWorkersAllow  = "allow"
)

// AllowsWorkers reports whether the application may have service workers.
func (route *Route) AllowsWorkers() bool { return route.ServiceWorkers == ServiceWorkersAllow }

// Route maps requests to an upstream. Without an upstream it is for proxies that
// ask at EndpointVerify. Config.Table has the compiled policies.
type Route struct {
	Match              string             `yaml:"match"`
	Name               string             `yaml:"name"` // default: Match
	Upstream           string             `yaml:"upstream"`
	Auth               []policy.Mechanism `yaml:"auth"`
	Policy             []policy.Ref       `yaml:"policy,single"` // all must hold; nil: every authenticated identity
	Timeout            time.Duration      `yaml:"timeout"`       // 0: the upstream's
	Unauthenticated    string             `yaml:"unauthenticated"`
	Authorization      string             `yaml:"authorization"`   // gateway or application
	CrossOrigin        string             `yaml:"cross_origin"`    // deny or allow
	ServiceWorkers     string             `yaml:"service_workers"` // refuse or allow
	EncodedSlashes     string             `yaml:"encoded_slashes"` // reject or keep
	StripPrefix        string             `yaml:"strip_prefix"`
	Headers            RouteHeaders       `yaml:"headers"`
	ForwardCredentials bool               `yaml:"forward_credentials"`
	MaxBody            int64              `yaml:"max_body"` // bytes, 0: no limit
	CORS               CORS               `yaml:"cors"`
	Rate               Rate               `yaml:"rate"` // Requests is 0: no limit
	BasicChallenge     bool               `yaml:"basic_challenge"`
	Upgrade            []string           `yaml:"upgrade"` // protocols beside WebSocket
}

// Words returns the words that keys of a route take.
func (Route) Words() map[string][]string {
	return map[string][]string{
		"auth": {
			string(policy.Basic), string(policy.Session), string(policy.Bearer), string(policy.OIDC), string(policy.None),
		},
		"unauthenticated": {UnauthenticatedAuto, UnauthenticatedChallenge, UnauthenticatedRedirect},
		"authorization":   {AuthorizationGateway, AuthorizationApplication},
		"cross_origin":    {CrossOriginDeny, CrossOriginAllow},
		"service_workers": {ServiceWorkersRefuse, ServiceWorkersAllow},
		"encoded_slashes": {EncodedSlashesReject, EncodedSlashesKeep},
	}
}

// Whom a bearer token belongs to that is not the gateway's.
const (
	AuthorizationGateway     = "gateway" // which rejects it
	AuthorizationApplication = "application"
)

// Treatment of "%2F" in a path.
const (
	EncodedSlashesReject = "reject"
	EncodedSlashesKeep   = "keep" // as a part of its segment
)

// CORS shares the responses of a route with scripts of other origins. Without
// Origins, the application decides.
type CORS struct {
	Origins     []string      `yaml:"origins"`
	Headers     []string      `yaml:"headers"` // of requests
	Methods     []string      `yaml:"methods"`
	Expose      []string      `yaml:"expose"` // headers of responses
	Credentials bool          `yaml:"credentials"`
	MaxAge      time.Duration `yaml:"max_age"` // of the answer to a preflight, whole seconds
}

// Who a rate counts requests of.
const (
	RateByClient = "client"
	RateByUser   = "user"
)

// Rate limits the requests of each client or user.
type Rate struct {
	Requests int64         `yaml:"requests"` // in Per
	Per      time.Duration `yaml:"per"`
	By       string        `yaml:"by"` // client or user
}

// Words returns the words that keys of a rate take.
func (Rate) Words() map[string][]string {
	return map[string][]string{"by": {RateByClient, RateByUser}}
}

// RouteHeaders changes the request to the upstream.
type RouteHeaders struct {
	Set    map[string]string `yaml:"set"`
	Remove []string          `yaml:"remove"`
	Pass   []string          `yaml:"pass"` // headers that clients may send, which are otherwise removed
}

// Limits are limits for clients.
type Limits struct {
	LoginFailures  int           `yaml:"login_failures"`
	LoginWindow    time.Duration `yaml:"login_window"`
	MaxHeaderBytes int           `yaml:"max_header_bytes"`
	InFlight       int           `yaml:"in_flight"`  // requests at the same time; 0: as many as file descriptors allow
	BodyPause      time.Duration `yaml:"body_pause"` // longest pause of a request body while the response pauses too
}

// Log configures the log.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // json or text
}

// Tracing configures the traces of requests. Without an Endpoint there are none.
type Tracing struct {
	Endpoint    string  `yaml:"endpoint"`     // URL of a collector: OTLP over HTTP
	Sample      float64 `yaml:"sample"`       // share of the requests that are recorded, 0 to 1
	ServiceName string  `yaml:"service_name"` // of this gateway
}
