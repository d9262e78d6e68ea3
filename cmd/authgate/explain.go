package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/explain"
	"authgate/gateway/strictyaml"
	"authgate/gateway/wire/strictjson"
	"authgate/policy"
)

// callerFlags describe who makes the request.
type callerFlags struct {
	user                                 string
	username, mechanism, provider, email string
	roles, scopes, claims                []string
	client, resource, actor              string
	issuer, token                        string
	apiToken                             bool
	factors                              int
	age                                  string
}

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [flags] METHOD URL",
		Short: "Say what the gateway does with a request, and why",
		Long: "Print the route of a request, each condition with true or false, the decision,\n" +
			"and the headers that the upstream would receive. Nothing is sent, and no gateway\n" +
			"needs to run.\n\n" +
			"URL is an https URL, or a path at the host of public_url. Without --as and the\n" +
			"flags of an identity, the request has no credentials. --api-token makes the\n" +
			"request with an API token of the account --as; --roles then reduces its roles.\n\n" +
			"--scopes, --client and --resource make the request with an access token that an\n" +
			"OAuth client has of the user, and --as client:ID with one of the client's own.\n" +
			"Without --scopes the token has those that a client gets if it asks for none,\n" +
			"and without --resource it is for the route. --actor client:ID makes it a token that\n" +
			"this client exchanged, to act for the user.\n\n" +
			"--issuer and --claims make the request with a token of a trusted issuer. The file\n" +
			"has a JSON object, like the payload of a token of the issuer; iss, aud and exp count\n" +
			"as right if they are missing there.\n\n" +
			"--factors and --age say what the user has proved in the login, and how long ago.\n" +
			"Without them it is one factor, at a time that is not known.\n\n" +
			"--mcp-method and --mcp-name describe the message of a POST to a route with mcp: true.\n" +
			"Without them it is one that no list of mcp refuses.\n\n" +
			"-H adds a header, as of curl. What another site makes a browser send has Origin or\n" +
			"Sec-Fetch-Site; a page load has Accept: text/html.",
		Example: "  authgate explain --as alice GET /admin\n" +
			"  authgate explain --roles staff --mechanism oidc --from 192.0.2.7 POST https://wiki.example.org/page\n" +
			"  authgate explain --provider company --claim department=sales GET /sales\n" +
			"  authgate explain --as alice --api-token --roles user GET /api\n" +
			"  authgate explain --as alice --client wiki --scopes tools POST https://tools.example.org/mcp\n" +
			"  authgate explain --as client:backup GET /api\n" +
			"  authgate explain --as alice --actor client:agent GET /api\n" +
			"  authgate explain --issuer github --claims claims.json POST /deploy\n" +
			"  authgate explain --as alice --mcp-method tools/call --mcp-name delete_all POST /mcp\n" +
			"  authgate explain --as alice --factors 2 --age 5m GET /vault\n" +
			"  authgate explain --as alice -H 'Origin: https://evil.example' POST /page",
		Args: usage(cobra.ExactArgs(2)),
	}
	path, placeholders := configOrInputFlag(cmd), placeholdersFlag(cmd)
	var caller callerFlags
	caller.register(cmd)
	from := cmd.Flags().String("from", "127.0.0.1", "address of the client")
	verify := cmd.Flags().Bool("verify", false,
		"explain what a proxy is told that asks about the request (forward authentication)")
	header := cmd.Flags().StringArrayP("header", "H", nil, "a header of the request, as 'Name: value'; can be repeated")
	mcpMethod := cmd.Flags().String("mcp-method", "",
		"the method of the message to an MCP server, like tools/call (default: a message that no list of mcp refuses)")
	mcpName := cmd.Flags().String("mcp-name", "", "the tool, the prompt or the URI that the message names")
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object")
	now := atFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		described, err := readDescribed(args[0], args[1], *from, *header)
		if err != nil {
			return err
		}
		described.Verify, described.MCPMethod, described.MCPName = *verify, *mcpMethod, *mcpName
		if described.Caller, err = caller.readLogin(cmd); err != nil {
			return err
		}
		cfg, _, err := loadConfig(cmd, *path, config.Environment{Placeholders: *placeholders})
		if err != nil {
			return err
		}
		x, err := explainOne(cfg, described, now)
		if err != nil {
			return err
		}
		return printExplanation(cmd.OutOrStdout(), x, *asJSON)
	}
	return cmd
}

// readDescribed returns the request of the arguments and flags, without who makes it.
func readDescribed(method, url, from string, header []string) (*explain.Request, error) {
	client, err := netip.ParseAddr(from)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--from %q is not an IP address", from)}
	}
	d := &explain.Request{Method: method, URL: url, From: client}
	d.Header, err = readHeader(header)
	return d, err
}

// readHeader returns the header with these lines.
func readHeader(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, &usageError{fmt.Errorf("-H %q is not a header; expected 'Name: value'", line)}
		}
		h[name] = append(h[name], strings.TrimSpace(value)) // in the given case
	}
	return h, nil
}

// explainOne explains one request. The error is a *usageError if the description is at
// fault.
func explainOne(cfg *config.Config, described *explain.Request, now func() time.Time) (*explain.Result, error) {
	explainer, err := gateway.NewExplainerAt(cfg, now)
	if err != nil {
		return nil, err
	}
	x, err := explainer.Explain(described)
	err = errors.Join(err, explainer.Close())
	if mistake, ok := errors.AsType[*explain.Mistake](err); ok {
		return nil, &usageError{mistake}
	}
	return x, err
}

func (c *callerFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.user, "as", "",
		"a local account, Basic user or, as client:ID, OAuth client that makes the request; none: no credentials")
	flags.StringVar(&c.mechanism, "mechanism", "",
		"basic, session, bearer, oidc or certificate (default: any that the route accepts)")
	flags.StringSliceVar(&c.roles, "roles", nil,
		"roles of an identity in words, instead of --as; with --api-token: of the token")
	flags.BoolVar(&c.apiToken, "api-token", false,
		"the request has an API token of the account --as, with all of its roles or with --roles")
	flags.StringVar(&c.username, "username", "", "its user name")
	flags.StringVar(&c.provider, "provider", "", "its provider (default: one that fits the mechanism)")
	flags.StringVar(&c.email, "email", "", "its address")
	flags.StringSliceVar(&c.scopes, "scopes", nil,
		"the OAuth scopes of the token: of a trusted issuer as --provider, or of an OAuth client of the gateway's")
	flags.StringVar(&c.client, "client", "", "the id of the OAuth client that has the token (default: any)")
	flags.StringVar(&c.resource, "resource", "",
		"the address of what the token is for (default: the route of the request)")
	flags.StringVar(&c.actor, "actor", "",
		"the OAuth client that acts for the user with a token that it exchanged, as client:ID (default: none)")
	flags.StringArrayVar(&c.claims, "claim", nil,
		"a claim of its provider or trusted issuer, as NAME=VALUE; can be repeated")
	flags.StringVar(&c.issuer, "issuer", "", "the trusted issuer of the token of the request; with --claims")
	flags.StringVar(&c.token, "claims", "", "a file with the claims of that token, as a JSON object")
	flags.IntVar(&c.factors, "factors", 0, "how many factors the user has proved in the login: 1 or 2")
	flags.StringVar(&c.age, "age", "", "how long ago that was, like 10m (default: not known)")
}

// readLogin returns the caller with the login, nil without credentials.
func (c *callerFlags) readLogin(cmd *cobra.Command) (*explain.Caller, error) {
	age, err := c.readProof(cmd)
	if err != nil {
		return nil, err
	}
	caller, err := c.readCaller(cmd)
	if err != nil || c.factors == 0 && age == 0 {
		return caller, err
	}
	if caller == nil {
		return nil, &usageError{errors.New("--factors and --age are about a login, and there is none")}
	}
	caller.Factors, caller.Age = c.factors, age
	return caller, nil
}

// readProof checks the flags about a login, and returns its age.
func (c *callerFlags) readProof(cmd *cobra.Command) (age time.Duration, err error) {
	if cmd.Flags().Changed("factors") {
		if err := policy.CheckFactors(c.factors); err != nil {
			return 0, &usageError{fmt.Errorf("--factors: %w", err)}
		}
	}
	if !cmd.Flags().Changed("age") {
		return 0, nil
	}
	if age, err = strictyaml.ParseDuration(c.age); err != nil {
		return 0, &usageError{fmt.Errorf("--age %q is not a duration like 90s, 15m, 1h30m or 7d", c.age)}
	}
	if err := policy.CheckMaxAge(age); err != nil {
		return 0, &usageError{fmt.Errorf("--age: %w", err)}
	}
	return age, nil
}

// readCaller returns the caller without the factors and the age of the login.
func (c *callerFlags) readCaller(cmd *cobra.Command) (*explain.Caller, error) {
	given := func(names ...string) bool { return slices.ContainsFunc(names, cmd.Flags().Changed) }
	switch {
	case given("issuer", "claims"):
		return c.readIssued(given)
	case given("as") && c.user == "":
		return nil, &usageError{errors.New("--as is empty; give the name of a user")}
	case c.apiToken && c.user == "":
		return nil, &usageError{errors.New("--api-token needs --as: it is a token of an account")}
	case given("client") && c.client == "" || given("resource") && c.resource == "" || given("actor") && c.actor == "":
		return nil, &usageError{errors.New("--client, --resource and --actor must not be empty; leave out the flag")}
	case c.apiToken && given("username", "provider", "email", "scopes", "claim", "client", "resource", "actor"):
		return nil, &usageError{errors.New("--api-token goes with --as and --roles alone: " +
			"it has nothing that its account has not")}
	case c.apiToken:
		return &explain.Caller{
			User: c.user, Mechanism: policy.Mechanism(c.mechanism), APIToken: true, Roles: c.roles,
		}, nil
	case given("as") && given("roles", "username", "provider", "email", "claim"):
		return nil, &usageError{errors.New("--as names a user, " +
			"who has the roles and the provider of the configuration; give --as, or the flags of an identity")}
	case given("as") && c.user == noUser && given("scopes", "client", "resource", "actor"):
		return nil, &usageError{errors.New("--scopes, --client, --resource and --actor are about a token, " +
			"and --as none has none")}
	case given("as"):
		return c.withToken(callerAs(c.user, c.mechanism)), nil
	case !given("roles", "username", "provider", "email", "scopes", "claim", "mechanism", "factors", "age", "client",
		"resource", "actor"):
		return nil, nil
	}
	claims, err := readClaims(c.claims)
	return c.withToken(&explain.Caller{
		Username: c.username, Roles: c.roles, Mechanism: policy.Mechanism(c.mechanism),
		Provider: c.provider, Email: c.email, Claims: claims,
	}), err
}

// readIssued returns the caller with a token of a trusted issuer.
func (c *callerFlags) readIssued(given func(names ...string) bool) (*explain.Caller, error) {
	switch {
	case c.issuer == "" || c.token == "":
		return nil, &usageError{errors.New("--issuer and --claims go together: " +
			"the name of a trusted issuer, and a file with the claims of its token")}
	case given("as", "api-token", "username", "mechanism", "provider", "email", "roles", "scopes", "claim", "client",
		"resource", "actor", "factors", "age"):
		return nil, &usageError{errors.New("--issuer and --claims describe all of a token, " +
			"so they go without --as and the other flags of an identity or a token")}
	}
	content, _, err := strictyaml.ReadFile(c.token, maxClaims)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--claims: %w", err)}
	}
	claims, err := strictjson.Object(content)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--claims: %s is not a JSON object with the claims of a token: %w", c.token,
			err)}
	}
	return &explain.Caller{Issuer: c.issuer, Token: claims}, nil
}

// maxClaims is the largest size of a file of claims, in bytes.
const maxClaims = 64 << 10

// withToken adds the values of the flags about an access token. A nil caller stays nil.
func (c *callerFlags) withToken(caller *explain.Caller) *explain.Caller {
	if caller != nil {
		caller.Scopes, caller.Client, caller.Resource, caller.Actor = c.scopes, c.client, c.resource, c.actor
	}
	return caller
}

// readClaims returns the claims that --claim gives, nil if it gives none.
func readClaims(given []string) (map[string][]string, error) {
	var claims map[string][]string
	for _, claim := range given {
		name, value, ok := strings.Cut(claim, "=")
		if !ok || name == "" {
			return nil, &usageError{fmt.Errorf("--claim %q is not a claim; expected NAME=VALUE", claim)}
		}
		if claims == nil {
			claims = map[string][]string{}
		}
		claims[name] = append(claims[name], value)
	}
	return claims, nil
}

// noUser is the user of a request without credentials.
const noUser = "none"

// callerAs returns a user of the configuration.
func callerAs(user, mechanism string) *explain.Caller {
	if user == noUser {
		return nil
	}
	return &explain.Caller{User: user, Mechanism: policy.Mechanism(mechanism)}
}

// explanation is an Explanation as JSON.
type explanation struct {
	Outcome    string            `json:"outcome"`
	Status     int               `json:"status"`
	Route      string            `json:"route"`
	Upstream   string            `json:"upstream"`
	Reason     string            `json:"reason"`
	Conditions []condition       `json:"conditions"`
	Headers    map[string]string `json:"headers"`
	StepUp     *stepUp           `json:"step_up,omitempty"`
	Note       string            `json:"note,omitempty"`
}

// stepUp is the demand on a sign-in.
type stepUp struct {
	Factors int   `json:"factors,omitempty"`
	MaxAge  int64 `json:"max_age,omitempty"` // in seconds
}

func newStepUp(d policy.Demand) *stepUp {
	if d == (policy.Demand{}) {
		return nil
	}
	return &stepUp{d.Factors, d.Seconds()}
}

type condition struct {
	Rule  string `json:"rule"`
	Needs string `json:"needs"`
	Depth int    `json:"depth"`
	Holds bool   `json:"holds"`
}

// printExplanation prints x as text, or as a JSON object.
func printExplanation(w io.Writer, x *explain.Result, asJSON bool) error {
	if asJSON {
		return printJSON(w, x)
	}
	printText(w, x)
	return nil
}

func printJSON(w io.Writer, x *explain.Result) error {
	shown := explanation{
		Outcome: x.Outcome, Status: x.Status, Route: x.Route, Upstream: x.Upstream, Reason: x.Reason,
		Conditions: []condition{}, Headers: map[string]string{}, StepUp: newStepUp(x.StepUp), Note: x.Note,
	}
	for _, c := range x.Conditions {
		shown.Conditions = append(shown.Conditions,
			condition{Rule: c.Rule, Needs: c.Needs, Depth: c.Depth, Holds: c.Holds})
	}
	for name := range x.Header {
		shown.Headers[name] = headerValue(x.Header, name)
	}
	return encodeJSON(w, shown)
}

// headerValue returns the value of a header, whatever the case of its name. Several
// lines are one list (RFC 9110, section 5.3).
func headerValue(h http.Header, name string) string {
	for sent, values := range h {
		if strings.EqualFold(sent, name) {
			return strings.Join(values, ", ")
		}
	}
	return ""
}

func printText(w io.Writer, x *explain.Result) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name+":", printable(fmt.Sprintf(format, args...)))
	}
	if x.Route != "" {
		line("route", "%s", x.Route)
	}
	if len(x.Mechanisms) > 0 {
		accepted := make([]string, len(x.Mechanisms))
		for i, m := range x.Mechanisms {
			accepted[i] = string(m)
		}
		line("mechanisms", "%s", strings.Join(accepted, ", "))
	}
	if x.Mechanism != "" {
		line("proved by", "%s", x.Mechanism)
	}
	if len(x.Conditions) > 0 {
		fmt.Fprintln(w, "conditions:")
	}
	for _, c := range x.Conditions {
		fmt.Fprintf(w, "  %-5t %s%s\n", c.Holds, strings.Repeat("  ", c.Depth), printable(c.Rule+": "+c.Needs))
	}
	line("decision", "%s (%d)", x.Outcome, x.Status)
	line("reason", "%s", x.Reason)
	if x.Note != "" {
		line("note", "%s", x.Note)
	}
	if x.StepUp != (policy.Demand{}) {
		line("step-up", "%s", x.StepUp)
	}
	if x.Path != "" {
		line("upstream", "%s, path %s", x.Upstream, x.Path)
	}
	if len(x.Header) > 0 {
		fmt.Fprintln(w, "headers:")
	}
	for _, name := range slices.Sorted(maps.Keys(x.Header)) {
		fmt.Fprintf(w, "  %s: %s\n", name, printable(headerValue(x.Header, name)))
	}
}

// printable quotes a text on which a terminal could act, or that it would show in another
// order.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
