package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/explain"
)

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
	var f explainFlags
	f.config, f.placeholders, f.now = configOrInputFlag(cmd), placeholdersFlag(cmd), atFlag(cmd)
	f.addFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], args[1]) }
	return cmd
}

// explainFlags describe a request, and the form of the answer.
type explainFlags struct {
	config             *string
	placeholders       *bool
	now                func() time.Time
	caller             callerFlags
	from               string
	header             []string
	mcpMethod, mcpName string
	verify, asJSON     bool
}

// addFlags adds the flags of the command alone.
func (f *explainFlags) addFlags(flags *pflag.FlagSet) {
	f.caller.addFlags(flags)
	flags.StringVar(&f.from, "from", "127.0.0.1", "address of the client")
	flags.BoolVar(&f.verify, "verify", false,
		"explain what a proxy is told that asks about the request (forward authentication)")
	flags.StringArrayVarP(&f.header, "header", "H", nil, "a header of the request, as 'Name: value'; can be repeated")
	flags.StringVar(&f.mcpMethod, "mcp-method", "",
		"the method of the message to an MCP server, like tools/call (default: a message that no list of mcp refuses)")
	flags.StringVar(&f.mcpName, "mcp-name", "", "the tool, the prompt or the URI that the message names")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
}

// run explains one request.
func (f *explainFlags) run(cmd *cobra.Command, method, url string) error {
	described, err := f.readRequest(method, url)
	if err != nil {
		return err
	}
	if described.Caller, err = f.caller.readLogin(cmd.Flags().Changed); err != nil {
		return err
	}
	cfg, _, err := loadConfig(cmd, *f.config, config.Environment{Placeholders: *f.placeholders})
	if err != nil {
		return err
	}
	x, err := explainOne(cfg, described, f.now)
	if err != nil {
		return err
	}
	return printExplanation(cmd.OutOrStdout(), x, f.asJSON)
}

// readRequest returns the request of the arguments and flags, without who makes it.
func (f *explainFlags) readRequest(method, url string) (*explain.Request, error) {
	client, err := netip.ParseAddr(f.from)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--from %q is not an IP address", f.from)}
	}
	header, err := readHeader(f.header)
	return &explain.Request{
		Method: method, URL: url, From: client, Header: header,
		Verify: f.verify, MCPMethod: f.mcpMethod, MCPName: f.mcpName,
	}, err
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
