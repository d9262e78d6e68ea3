package oauth

import (
	"context"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// toolbox is an MCP server behind a gateway, which lends alice's role user to tokens with
// the scope tools, as docs/how-to/mcp-server.md has it. That scope opens the tool whoami alone.
type toolbox struct {
	*world.Instance
	tap    *world.Tap
	config string
}

// prepareToolbox returns a gateway in front of an MCP server, which does not run yet.
func prepareToolbox(t *testing.T, server string) *toolbox {
	t.Helper()
	box := &toolbox{Instance: world.Prepare(t), tap: world.StartTap(t, server)}
	box.config = world.People + world.App(box.tap.URL) + `
policies:
  tools: {roles: [user], scopes: [tools], mcp: {tools: [whoami]}}
routes:
  - {match: /mcp, upstream: app, auth: [bearer], policy: tools, mcp: true}
  - {match: /api/, upstream: app, auth: [bearer]}
oauth:
  enabled: true
  registration: open
  scopes: {tools: [user]}
  metadata_clients: {hosts: [localhost], trusted_roots: roots.pem}
`
	box.Configure(box.config)
	return box
}

// wantAlice checks what reached the MCP server: alice with the role that the scope lends, and
// no token.
func (b *toolbox) wantAlice(t *testing.T) {
	t.Helper()
	b.tap.WantUser(t, "alice", "Bearer")
	if roles := b.tap.Values("X-Auth-Roles"); !slices.Equal(roles, []string{"user"}) {
		t.Errorf("the MCP server got the roles %q", roles)
	}
}

// TestMCPNode: a client of the official SDK for TypeScript finds by itself how its user signs
// in for an MCP server of the same SDK.
func TestMCPNode(t *testing.T) {
	t.Parallel()
	for _, story := range []string{"registered", "document"} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			port := world.FreePort(t)
			world.Launch(t, "http://127.0.0.1:"+port+"/ready", exec.Command("node", "testdata/mcp-server.mjs", port))
			box := prepareToolbox(t, "127.0.0.1:"+port)
			d := serveDocument(t, box.Instance, "none")
			box.Run()
			node(t, box.Instance, "mcp-client.mjs", story, box.Base, world.FreePort(t), d.address)
			box.wantAlice(t)
		})
	}
}

// TestMCPScopes: a client of the official SDK for TypeScript, version 2, has a scope for some tools. For
// another tool it sends the user to the gateway by itself, gets one more scope, and calls the tool.
func TestMCPScopes(t *testing.T) {
	t.Parallel()
	port := world.FreePort(t)
	world.Launch(t, "http://127.0.0.1:"+port+"/ready", exec.Command("node", "testdata/mcp-server.mjs", port))
	box := prepareToolbox(t, "127.0.0.1:"+port)
	box.Configure(strings.NewReplacer(
		"scopes: [tools], mcp: {tools: [whoami]}",
		"any: [{scopes: [tools], mcp: {tools: [whoami]}}, {scopes: [deleting], mcp: {tools: [delete_all]}}]",
		"scopes: {tools: [user]}", "scopes: {tools: [user], deleting: [user]}").Replace(box.config))
	serveDocument(t, box.Instance, "none") // roots.pem is that of its server
	box.Run()
	node(t, box.Instance, "mcp-scopes.mjs", "scopes", box.Base, world.FreePort(t))
	box.wantAlice(t)
}

// TestMCPCrossApp: a client of the official SDK for TypeScript acts for the user whom the provider of a
// company vouches for. It knows the address of the server, and asks no user.
func TestMCPCrossApp(t *testing.T) {
	t.Parallel()
	port := world.FreePort(t)
	world.Launch(t, "http://127.0.0.1:"+port+"/ready", exec.Command("node", "testdata/mcp-server.mjs", port))
	box, company := prepareToolbox(t, "127.0.0.1:"+port), world.StartPlatform(t)
	const secret = "4dae4b72f33a40dcb9d0d7c1d2f3a98e"
	box.Configure(box.config + `  clients: [{id: agent, secret: ` + secret + `, grants: [device_code]}]
  cross_app: [{provider: okta, clients: [agent]}]
providers: [{name: okta, issuer: "` + company.URL + `", client_id: gateway}]
`)
	serveDocument(t, box.Instance, "none") // roots.pem is that of its server
	box.Run()
	assertion := company.Sign("oauth-id-jag+jwt", map[string]any{
		"aud": box.Base, "sub": "1", "preferred_username": "alice", "roles": []string{"user"}, "client_id": "agent",
		"resource": box.Base + "/mcp", "scope": "tools",
	})
	node(t, box.Instance, "mcp-crossapp.mjs", "vouched", box.Base, world.FreePort(t), secret, assertion)
	box.wantAlice(t)
}

// TestMCPGo is TestMCPNode with the official SDK for Go.
func TestMCPGo(t *testing.T) {
	t.Parallel()
	for _, story := range []string{"registered", "document"} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			box := prepareToolbox(t, serveTools(t))
			d := serveDocument(t, box.Instance, "none")
			box.Run()
			fetch := func(_ context.Context, asked *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
				answer := ask(t, box.Instance, asked.URL)
				return &auth.AuthorizationResult{
					Code: answer.Get("code"), State: answer.Get("state"), Iss: answer.Get("iss"),
				}, nil
			}
			config := &auth.AuthorizationCodeHandlerConfig{
				RedirectURL: redirect, Client: box.Stranger(), AuthorizationCodeFetcher: fetch,
			}
			if story == "document" {
				config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: d.address}
			} else {
				config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{
					Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "MCP client", RedirectURIs: []string{redirect}},
				}
			}
			if said := askWho(t, box.Instance, config); said != "alice user" {
				t.Errorf("the tool says %s", said)
			}
			box.wantAlice(t)
		})
	}
}

// askWho connects to the MCP server behind a gateway, and returns what its tool says.
func askWho(t *testing.T, g *world.Instance, config *auth.AuthorizationCodeHandlerConfig) string {
	t.Helper()
	handler := world.Must(auth.NewAuthorizationCodeHandler(config))(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, nil)
	session := world.Must(client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: g.Base + "/mcp", HTTPClient: g.Stranger(), OAuthHandler: handler,
	}, nil))(t)
	defer session.Close()
	result := world.Must(session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"}))(t)
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("the tool says %v", result.Content)
	}
	return text.Text
}

// serveTools starts an MCP server with a tool that tells who asks, and returns its address.
func serveTools(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami", Description: "Tells who asks."},
		func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			header := r.Extra.Header
			said := &mcp.TextContent{Text: header.Get("X-Auth-User") + " " + header.Get("X-Auth-Roles")}
			return &mcp.CallToolResult{Content: []mcp.Content{said}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return world.Serve(t, handler.ServeHTTP)[len("http://"):]
}
