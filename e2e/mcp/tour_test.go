package mcp

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// Versions of the protocol that the SDKs speak: with sessions and streams that resume, and without.
const (
	withSessions    = "2025-11-25"
	withoutSessions = "2026-07-28"
)

// seen is what an agent sees on its tour of a server: the answers that its SDK returns.
type seen struct {
	Version  string    `json:"version"`
	Tools    []string  `json:"tools"`
	Text     string    `json:"text"`     // of search_text
	Progress []string  `json:"progress"` // of search_text, while it works
	Answer   string    `json:"answer"`   // of search_ask, which asks the user
	Resumed  string    `json:"resumed"`  // of search_slow, whose stream breaks; without sessions it cannot
	Changed  bool      `json:"changed"`  // search_more changes the list of tools, and the server says so
	Resource string    `json:"resource"` // notes://today
	Prompt   string    `json:"prompt"`   // greet
	Refused  []refusal `json:"refused"`  // delete_all, the prompt secret, file:///etc/passwd
	Again    string    `json:"again"`    // search_text after all that
}

// refusal is an error that an SDK returns.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// agents lets alice's agents call the tools search_*, and read notes.
const agents = world.People + `
policies:
  agents:
    roles: [user]
    mcp: {tools: ["search_*"], prompts: ["*", "!secret"], resources: ["notes://*"]}
routes: [{match: /mcp/, upstream: app, auth: [bearer], policy: agents, mcp: true}]
`

// server is an MCP server behind a gateway.
type server struct {
	*world.Instance
	tap   *world.Tap
	token string // of alice
}

// protect starts a gateway in front of an MCP server at an address.
func protect(t *testing.T, address string) *server {
	t.Helper()
	s := &server{tap: world.StartTap(t, address)}
	s.Instance = world.Start(t, world.App(s.tap.URL)+agents)
	s.token = strings.TrimPrefix(s.SignIn(s.Stranger(), "alice").Access, "Bearer ")
	return s
}

// endpoint is the address of the server for a version of the protocol.
func (s *server) endpoint(version string) string { return s.Base + "/mcp/" + version }

// check compares the view of an agent with the answers that it should have got from the server and the gateway,
// and looks for messages that should not have reached the server.
func (s *server) check(t *testing.T, version string, got seen) {
	t.Helper()
	want := seen{
		Version: version, Tools: []string{"delete_all", "search_ask", "search_more", "search_slow", "search_text"},
		Text: "alice finds text", Progress: []string{"half"}, Answer: "blue", Resumed: "after the break", Changed: true,
		Resource: "a note", Prompt: "hello", Again: "alice finds text",
	}
	if version == withoutSessions {
		want.Resumed = ""
	}
	refused := got.Refused
	got.Refused = nil
	if a, b := show(t, got), show(t, want); a != b {
		t.Errorf("the agent saw\n%s\nnot\n%s", a, b)
	}
	for i, name := range []string{"delete_all", "secret", "file:///etc/passwd"} {
		if i >= len(refused) || refused[i].Code != 403 || !strings.Contains(refused[i].Message, name) {
			t.Errorf("the agent saw the errors %+v, want one with 403 that names %s", refused, name)
		}
	}
}

// checkServer checks that the server got alice's calls, but none that the policy refuses, and that
// the agent continued a stream and ended its session.
func (s *server) checkServer(t *testing.T) {
	t.Helper()
	s.tap.WantUser(t, "alice", s.token)
	if len(s.tap.Values("Last-Event-Id")) == 0 || !s.tap.Has("DELETE /mcp/"+withSessions) {
		t.Error("the agent continued no stream, or did not end its session")
	}
	for _, name := range []string{`"delete_all"`, `"secret"`, "/etc/passwd"} {
		if s.tap.Has(name) {
			t.Errorf("the server got a call of %s", name)
		}
	}
}

func show(t *testing.T, value any) string {
	t.Helper()
	return string(world.Must(json.MarshalIndent(value, "", "  "))(t))
}

// tourOf starts the MCP server that a program is, and lets the agent that another program is make its
// tour with each version of the protocol. The agent writes what it saw.
func tourOf(t *testing.T, program, serverFile, agentFile string) {
	t.Helper()
	port := world.FreePort(t)
	serving := exec.Command(program, filepath.Join("testdata", serverFile), port)
	world.Launch(t, "http://127.0.0.1:"+port+"/ready", serving)
	s := protect(t, "127.0.0.1:"+port)
	ctx, cancel := context.WithTimeout(t.Context(), 2*world.Patience)
	defer cancel()
	for _, version := range []string{withSessions, withoutSessions} {
		agent := exec.CommandContext(ctx, program, filepath.Join("testdata", agentFile), s.endpoint(version), version,
			s.token)
		authority := filepath.Join(s.Dir, s.CA)
		agent.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+authority, "SSL_CERT_FILE="+authority)
		said := &world.Output{}
		agent.Stderr = said
		out, err := agent.Output()
		var got seen
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			t.Fatalf("%s, %s: %v\n%s\n%s", agentFile, version, err, out, said)
		}
		slices.Sort(got.Tools)
		s.check(t, version, got)
	}
	s.checkServer(t)
}
