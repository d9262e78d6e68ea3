//go:build interop

package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// marionette is a connection to Firefox's own protocol for automation. It has what WebDriver
// BiDi does not have yet: devices that hold passkeys.
type marionette struct {
	conn net.Conn
	in   *bufio.Reader
	last int
}

// dialMarionette connects to a Firefox that runs.
func dialMarionette(address string) (*marionette, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &marionette{conn: conn, in: bufio.NewReader(conn)}
	if _, err := m.read(); err != nil { // which says what speaks
		conn.Close()
		return nil, err
	}
	return m, nil
}

// read reads one message: its length, a colon, and JSON.
func (m *marionette) read() ([]byte, error) {
	head, err := m.in.ReadString(':')
	if err != nil {
		return nil, err
	}
	length, err := strconv.Atoi(strings.TrimSuffix(head, ":"))
	if err != nil {
		return nil, err
	}
	message := make([]byte, length)
	_, err = io.ReadFull(m.in, message)
	return message, err
}

// call sends a command and decodes its result, unless that is nil.
func (m *marionette) call(t *testing.T, command string, params object, result any) {
	t.Helper()
	m.last++
	message := world.Must(json.Marshal([]any{0, m.last, command, params}))(t)
	_, err := fmt.Fprintf(m.conn, "%d:%s", len(message), message)
	world.NoError(t, err)
	var failure struct{ Error, Message string }
	var value json.RawMessage
	answer := []any{new(int), new(int), &failure, &value}
	world.NoError(t, json.Unmarshal(world.Must(m.read())(t), &answer))
	if failure.Error != "" {
		t.Fatalf("%s %v: %s: %s", command, params, failure.Error, failure.Message)
	}
	if result != nil {
		world.NoError(t, json.Unmarshal(value, result))
	}
}

// phone adds a device that keeps passkeys and verifies its user, and returns its name.
func (m *marionette) phone(t *testing.T) (name string) {
	t.Helper()
	var added struct{ Value string }
	m.call(t, "WebAuthn:AddVirtualAuthenticator", object{"protocol": "ctap2", "transport": "internal",
		"hasResidentKey": true, "hasUserVerification": true, "isUserConsenting": true, "isUserVerified": true}, &added)
	return added.Value
}

// leaves removes a device.
func (m *marionette) leaves(t *testing.T, name string) {
	t.Helper()
	m.call(t, "WebAuthn:RemoveVirtualAuthenticator", object{"authenticatorId": name}, nil)
}

// passkeys: a person adds the passkey of a phone, and signs in with it alone. Another phone
// opens nothing.
func (f *firefox) passkeys() {
	up, g := world.Record(f.t), world.Prepare(f.t)
	g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ""))
	g.Configure(world.App(up.URL) + factorRoutes)
	g.Run()
	mine := f.remote.phone(f.t)
	f.open(g.Base + "/secure-resource")
	f.is(g.Base+"/signin", "User name")
	f.types("#username", "alice")
	f.types("#password", "wonderland"+enter)
	f.is(g.Base+"/secure-resource", "ok")
	f.open(g.Base + "/account?part=factors")
	f.types("#passkey-name", "Phone")
	f.types(passkeyButton, enter)
	f.is(g.Base+"/account/passkeys", "Keep these codes")
	up.All()

	byPasskey := func() {
		f.t.Helper()
		f.open(g.Base + "/me")
		f.click("button")
		f.is(g.Base+signedOutPage, "")
		f.open(g.Base + "/vault?x=1")
		f.is(g.Base+"/signin", "User name")
		f.types(passkeyButton, enter)
	}
	byPasskey()
	f.is(g.Base+"/vault?x=1", "ok")
	wantAsked(f.t, up, "GET", "/vault?x=1", "alice")

	f.remote.leaves(f.t, mine)
	other := f.remote.phone(f.t)
	byPasskey()
	f.is(g.Base+"/signin", "The passkey was not used.")
	f.remote.leaves(f.t, other)
	up.None(f.t)
}
