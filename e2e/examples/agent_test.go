package examples

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

const agentPage = "docs/how-to/agent.md"

// agent is the agent of the page, and the API behind the gateway.
type agent struct {
	*world.Instance
	api   *world.Recorder
	token string // the user's, as the Authorization header

	printed chan string // what the script printed, for each request that reached the agent
}

// ask asks the agent for something, which gets one of the statuses. The agent runs its script, and more commands after
// that.
func (a *agent) ask(t *testing.T, more string, statuses ...int) {
	t.Helper()
	answer := a.Do(a.Stranger(), "GET", "/agent?more="+url.QueryEscape(more), "", "Authorization", a.token)
	if !slices.Contains(statuses, answer.Status) {
		t.Fatalf("the agent: %d %s, expected one of %v", answer.Status, answer.Body, statuses)
	}
}

// serve runs a script for a user's request.
func (a *agent) serve(script, secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", script+"\n"+r.FormValue("more"))
		cmd.Env = append(os.Environ(), "CURL_CA_BUNDLE="+filepath.Join(a.Dir, a.CA), "AGENT_SECRET="+secret,
			"user_token="+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		printed, err := cmd.CombinedOutput()
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
		a.printed <- string(printed)
	}
}

// TestDocsAgent runs the agent of the page with its configuration: for a user who signs in, it reads from the API
// by its own name, and cannot write. After the user's logout it gets nothing, even with the token that it has.
func TestDocsAgent(t *testing.T) {
	t.Parallel()
	const secret = "4dae4b72f33a40dcb9d0d7c1d2f3a98e"
	const again = `curl -fsS -H "Authorization: Bearer $token" $gateway/api `
	a := &agent{Instance: world.Prepare(t), api: world.Record(t), printed: make(chan string, 1)}
	script := world.Substituted(t, world.DocumentedFile(t, agentPage, "agent.sh"), "https://login.example.org", a.Base)
	a.Configure(agentConfiguration(t, "https://login.example.org", a.Base, "${AGENT_SECRET}", secret,
		"http://127.0.0.1:3001", world.Serve(t, a.serve(script, secret)), "http://127.0.0.1:3002", a.api.URL))
	a.Run()
	in := a.SignIn(a.Stranger(), "alice")
	a.token = a.Lend(in.Session, "chat", "https://chat.example.org/callback", a.Base+"/agent").Access

	a.ask(t, "", http.StatusOK)
	<-a.printed
	reached := a.api.One(t)
	user, actor := reached.Value(t, "X-Auth-User"), reached.Value(t, "X-Auth-Actor")
	if user != "alice" || actor != "client:agent" {
		t.Errorf("the API sees %q for %q", actor, user)
	}
	a.ask(t, again+"-X POST", http.StatusBadGateway)
	printed := <-a.printed
	if line := a.api.One(t).Line; !strings.HasPrefix(line, "GET ") || !strings.Contains(printed, "403") {
		t.Errorf("%s reaches the API; the agent prints %s", line, printed)
	}
	if got := a.Status(a.Stranger(), "GET", "/api", "Authorization", a.token); got != http.StatusUnauthorized {
		t.Errorf("the user's token for the agent opens the API: %d", got)
	}
	logout := "curl -fsS -X POST -H 'Cookie: " + in.Session + "' -H 'Origin: " + a.Base + "' $gateway/logout\n"
	// The logout ends this request, too, if the script is not done in time.
	a.ask(t, logout+again, http.StatusBadGateway, http.StatusUnauthorized)
	printed = <-a.printed
	if a.api.One(t); !strings.Contains(printed, "401") {
		t.Errorf("after the logout, the agent prints %s", printed)
	}
	a.ask(t, "", http.StatusUnauthorized)
	a.api.None(t)
}

// agentConfiguration is the page's configuration, with replacements, and people.
func agentConfiguration(t *testing.T, replacements ...string) string {
	t.Helper()
	for _, b := range world.ReadDocument(t, agentPage).Blocks {
		if b.Info == "yaml fragment" {
			return world.Substituted(t, b.Text(), append(replacements, "[staff]", "[user]")...) + world.People
		}
	}
	t.Fatalf("%s shows no configuration", agentPage)
	return ""
}
