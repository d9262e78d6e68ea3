//go:build interop

package apps

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// rabbitProgram is RabbitMQ's own script. The one in the PATH of Debian works for the account of the
// service alone, with the data of the service.
const rabbitProgram = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// Accounts of RabbitMQ: the one that it comes with, and the one that takes its place.
const (
	rabbitGuest  = "guest:guest"
	rabbitKeeper = "keeper:of-the-burrow"
)

// TestRabbitMQ: an administrator opens the page, and its scripts use the API with RabbitMQ's own
// account. A program with an API token makes a queue and publishes to it. The names of the virtual
// host and of the queue reach RabbitMQ as they are. No other user reaches it,
// also with an account of RabbitMQ.
func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	address := world.FreeAddress(t)
	startRabbitMQ(t, address)
	g, up := behindPage(t, "rabbitmq.md", "rabbit", address, policiesOfPages)
	rabbitRefuses(t, g, up)
	alice := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	if a, _ := alice.SignIn(g.Base+"/", "alice"); a.Status != http.StatusOK ||
		!strings.Contains(a.Body, "<title>RabbitMQ Management</title>") {
		t.Fatalf("the page: %d %.300s", a.Status, a.Body)
	}
	scripts := func(account, want, method, path, body string) string {
		t.Helper()
		a, _ := alice.Visit(method, g.Base+path, body, "Authorization", "Basic "+
			base64.StdEncoding.EncodeToString([]byte(account)), "Content-Type", world.TypeJSON, "Origin", g.Base,
			"Sec-Fetch-Site", "same-origin")
		if fmt.Sprint(a.Status) != want {
			t.Errorf("%s %s as %s: %d, expected %s\n%.300s", method, path, account, a.Status, want, a.Body)
		}
		return a.Body
	}
	// The gateway is at 127.0.0.1, where RabbitMQ lets its guest in.
	scripts(rabbitGuest, "200", "GET", "/api/whoami", "")
	name, password, _ := strings.Cut(rabbitKeeper, ":")
	scripts(rabbitGuest, "201", "PUT", "/api/users/"+name, `{"password":"`+password+`","tags":"administrator"}`)
	scripts(rabbitGuest, "201", "PUT", "/api/permissions/%2F/"+name, `{"configure":".*","write":".*","read":".*"}`)
	scripts(rabbitKeeper, "204", "DELETE", "/api/users/guest", "")
	if body := scripts(rabbitGuest, "401", "GET", "/api/whoami", ""); !strings.Contains(body, "not_authorized") {
		t.Errorf("a wrong account: not RabbitMQ answers, but %s", body)
	}

	token := g.APIToken("alice")
	program := func(want, method, path, body string) string {
		t.Helper()
		status, answer := curl(t, g, "-u", rabbitKeeper, "-H", "Proxy-Authorization: Bearer "+token, "-X", method,
			"-H", "Content-Type: "+world.TypeJSON, "-d", body, g.Base+path)
		if status != want {
			t.Errorf("%s %s: %s, expected %s\n%.300s", method, path, status, want, answer)
		}
		return answer
	}
	const queue = `tea/hot\cup 100%2F?`
	at := "/api/queues/%2F/" + url.PathEscape(queue)
	program("201", "PUT", at, `{"durable":true}`)
	if !up.Has("PUT " + at + " HTTP/1.1\r\n") {
		t.Errorf("the queue did not reach RabbitMQ as %s", at)
	}
	publish := `{"properties":{},"routing_key":"tea/hot\\cup 100%2F?","payload":"earl grey","payload_encoding":"string"}`
	if body := program("200", "POST", "/api/exchanges/%2F/amq.default/publish", publish); body != `{"routed":true}` {
		t.Errorf("a message: %s", body)
	}
	if body := scripts(rabbitKeeper, "200", "POST", at+"/get",
		`{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`); !strings.Contains(body, `"payload":"earl grey"`) {
		t.Errorf("the message: %s", body)
	}
	scripts(rabbitKeeper, "204", "DELETE", at, "")
	up.WantUser(t, "alice", token, "session_id=", "Proxy-Authorization")
}

// rabbitRefuses checks that RabbitMQ's own account alone leads nowhere, and neither does a login of
// bob, who is no administrator.
func rabbitRefuses(t *testing.T, g *world.Instance, up *world.Tap) {
	t.Helper()
	overview := g.Base + "/api/overview"
	bob := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	a, _ := bob.SignIn(g.Base+"/", "bob")
	world.WantStatus(t, "the page, for bob", a, http.StatusForbidden)
	a, _ = bob.Visit("GET", overview, "", "Authorization", "Basic "+
		base64.StdEncoding.EncodeToString([]byte(rabbitGuest)))
	world.WantStatus(t, "the API, for bob", a, http.StatusForbidden)
	for want, more := range map[string][]string{
		"401": nil,
		"403": {"-H", "Proxy-Authorization: Bearer " + g.APIToken("bob")},
	} {
		if status, body := curl(t, g, append(more, "-u", rabbitGuest, overview)...); status != want {
			t.Errorf("the API with RabbitMQ's account and %.30q: %s, expected %s\n%.300s", more, status, want, body)
		}
	}
	if up.Has("GET ") {
		t.Error("a request that is refused reached RabbitMQ")
	}
}

// startRabbitMQ starts a node of RabbitMQ of its own, whose management listens at an address.
func startRabbitMQ(t *testing.T, address string) {
	t.Helper()
	dir := t.TempDir()
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	world.WriteAll(t, dir, map[string]string{
		"enabled_plugins": "[rabbitmq_management].\n",
		"rabbitmq.conf": world.Substituted(t, world.DocumentedFile(t, "docs/applications/rabbitmq.md",
			"rabbitmq.conf"), "port = 15672", "port = "+port(address)),
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	node := port(world.FreeAddress(t))
	registry := world.FreeAddress(t)
	names := []string{"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + port(registry)}
	// Without a registry of nodes, the node starts one that stays when the test has ended.
	world.Spawn(t, world.ShellIn(dir, names, world.FindProgram(t, "epmd")))
	world.Until(t, "the registry of nodes", func() bool {
		c, err := net.Dial("tcp", registry)
		return err == nil && c.Close() == nil
	})
	world.Launch(t, "http://"+address+"/", world.ShellIn(dir, append(names,
		"RUNNING_UNDER_SYSTEMD=yes", // no shell stays between the test and the node
		"RABBITMQ_NODENAME=burrow@localhost", "RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_LOGS=-",
		"RABBITMQ_CONFIG_FILE="+in("rabbitmq.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE="+in("enabled_plugins"),
		"RABBITMQ_MNESIA_BASE="+in("data"), "RABBITMQ_LOG_BASE="+in("log"), "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT="+node, "RABBITMQ_DIST_PORT="+port(world.FreeAddress(t)),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}"),
		world.FindProgram(t, rabbitProgram)))
}
