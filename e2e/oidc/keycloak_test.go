//go:build interop

package oidc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

// keycloakHome is the folder of Keycloak's distribution, which .ci/deps fetches.
var keycloakHome = world.Path("e2e/interop/keycloak/server")

// keycloak is one Keycloak, with a realm for the gateway of the test.
type keycloak struct {
	t    *testing.T
	base string
	ca   string // which it trusts
	data string // the folder of its database
	log  *world.Output
	cmd  *exec.Cmd
	done <-chan struct{}
}

// keycloakStarts bounds the start of Keycloak, which takes most of a minute of two
// processors.
const keycloakStarts = 8 * time.Minute

// run starts Keycloak on its database.
func (k *keycloak) run() {
	k.t.Helper()
	home := world.Must(filepath.Abs(keycloakHome))(k.t)
	k.cmd = exec.Command(filepath.Join(home, "bin", "kc.sh"), "start-dev",
		"--http-host=127.0.0.1", "--http-port="+k.base[strings.LastIndexByte(k.base, ':')+1:],
		"--truststore-paths="+k.ca, "--db-url=jdbc:h2:file:"+k.data+";NON_KEYWORDS=VALUE")
	k.cmd.Env = append(os.Environ(), "KC_BOOTSTRAP_ADMIN_USERNAME=root", "KC_BOOTSTRAP_ADMIN_PASSWORD="+keycloakSecret,
		"JAVA_OPTS_KC_HEAP=-Xms64m -Xmx512m")
	k.cmd.Stdout, k.cmd.Stderr = k.log, k.log
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the script starts Java
	k.done = world.Must(world.Begin(k.cmd))(k.t)
	k.t.Cleanup(k.stop)
	world.Eventually(k.t, keycloakStarts, "Keycloak starts", func() error {
		select {
		case <-k.done:
			k.t.Fatalf("Keycloak ends:\n%s", k.log)
		default:
		}
		response, err := http.Get(k.base + "/realms/master/.well-known/openid-configuration")
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", response.Status)
		}
		return nil
	})
}

// stop ends Keycloak as an administrator does, with its script, and by force if it does
// not end.
func (k *keycloak) stop() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = syscall.Kill(-k.cmd.Process.Pid, signal) // it may have ended before
		select {
		case <-k.done:
			return
		case <-time.After(world.Patience):
		}
	}
	<-k.done
}

// keycloakSecret is the password of all users and the secret of all clients.
const keycloakSecret = `s3cret: 100% +/&="~`

// keycloakOTP is the secret of the codes of carol, in base 32.
const keycloakOTP = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"

// admin calls the Admin REST API below the realm, or at /admin/realms for an empty
// path, and decodes the answer into result unless that is nil.
func (k *keycloak) admin(method, path string, body, result any) {
	k.t.Helper()
	response := world.Must(http.PostForm(k.base+"/realms/master/protocol/openid-connect/token", url.Values{
		"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {"root"}, "password": {keycloakSecret},
	}))(k.t)
	var token struct {
		AccessToken string `json:"access_token"`
	}
	world.NoError(k.t, json.NewDecoder(response.Body).Decode(&token))
	response.Body.Close()
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(world.Must(json.Marshal(body))(k.t))
	}
	at := k.base + "/admin/realms"
	if path != "" {
		at += "/main" + path
	}
	request := world.Must(http.NewRequest(method, at, content))(k.t)
	request.Header.Set("Authorization", "Bearer "+token.AccessToken)
	request.Header.Set("Content-Type", world.TypeJSON)
	response = world.Must(http.DefaultClient.Do(request))(k.t)
	defer response.Body.Close()
	answer := world.Must(io.ReadAll(response.Body))(k.t)
	if response.StatusCode > 299 {
		k.t.Fatalf("%s %s: %s %s", method, at, response.Status, answer)
	}
	if result != nil {
		world.NoError(k.t, json.Unmarshal(answer, result))
	}
}

// object is a JSON object.
type object = map[string]any

// id returns the identifier of the one element of a list in which key is value.
func (k *keycloak) id(list, key, value string) string {
	k.t.Helper()
	var all []object
	k.admin("GET", list, nil, &all)
	for _, one := range all {
		if one[key] == value {
			return one["id"].(string)
		}
	}
	k.t.Fatalf("%s has nothing with %s %s", list, key, value)
	return ""
}

// user returns the path of a user in the Admin API.
func (k *keycloak) user(name string) string {
	k.t.Helper()
	return "/users/" + k.id("/users", "username", name)
}

// sessions returns how many sessions a user has at Keycloak.
func (k *keycloak) sessions(name string) int {
	k.t.Helper()
	var all []object
	k.admin("GET", k.user(name)+"/sessions", nil, &all)
	return len(all)
}

// role gives a user a realm role (POST), or takes it (DELETE).
func (k *keycloak) role(method, user, role string) {
	k.t.Helper()
	var its object
	k.admin("GET", "/roles/"+role, nil, &its)
	k.admin(method, k.user(user)+"/role-mappings/realm", []object{its}, nil)
}

// keycloakClient is a client in the realm and the provider of this name at the
// gateway.
type keycloakClient struct {
	name       string
	claim      string // with the roles; empty: realm_access.roles
	more       string // for the gateway
	public     bool
	attributes object // more of them
}

// keycloakClients are those of the stories.
func keycloakClients() []keycloakClient {
	return []keycloakClient{
		{name: "keycloak"},
		{name: "public", public: true},
		{name: "redirect", more: ", logout: redirect"},
		{name: "brief", attributes: object{"access.token.lifespan": "4"}},
		{name: "client-roles", claim: "resource_access.client-roles.roles"},
		{name: "groups", claim: "groups"},
		{name: "light", attributes: object{"client.use.lightweight.access.token.enabled": "true"}},
		{name: "levels", more: ", two_factors: {acr: [gold]}, step_up: {acr_values: gold}",
			attributes: object{"acr.loa.map": `{"bronze":"1","gold":"2"}`}},
		{name: "methods", more: ", step_up: {acr_values: '2'}"},
	}
}

// provider is the entry for the gateway's list of providers.
func (c keycloakClient) provider(k *keycloak) string {
	claim, secret := c.claim, fmt.Sprintf(", client_secret: '%s'", keycloakSecret)
	if claim == "" {
		claim = "realm_access.roles"
	}
	if c.public {
		secret = ""
	}
	return fmt.Sprintf("  - {name: %s, issuer: %q, client_id: %[1]s, roles_claim: %[3]s%s%s}\n", c.name,
		k.base+"/realms/main", claim, secret, c.more)
}

// client is the client as docs/providers/keycloak.md creates it.
func (c keycloakClient) client(g *world.Instance) object {
	attributes := object{
		"pkce.code.challenge.method":          "S256",
		"post.logout.redirect.uris":           g.Base + "/",
		"backchannel.logout.url":              g.Base + "/backchannel-logout/" + c.name,
		"backchannel.logout.session.required": "true",
	}
	for name, value := range c.attributes {
		attributes[name] = value
	}
	return object{
		"clientId": c.name, "protocol": "openid-connect", "publicClient": c.public, "secret": keycloakSecret,
		"standardFlowEnabled": true, "directAccessGrantsEnabled": false, "frontchannelLogout": false,
		"redirectUris": []string{g.Base + "/callback", g.Base + "/callback/" + c.name}, "attributes": attributes,
	}
}

// realm creates the realm: alice is an administrator, and the address of bob is not
// verified.
func (k *keycloak) realm(g *world.Instance) {
	k.t.Helper()
	var clients []object
	for _, c := range keycloakClients() {
		clients = append(clients, c.client(g))
	}
	clients = append(clients, object{ // a program with tokens of its own
		"clientId": "program", "publicClient": false, "secret": keycloakSecret, "standardFlowEnabled": false,
		"serviceAccountsEnabled": true,
		"protocolMappers": []object{{"name": "audience", "protocol": "openid-connect",
			"protocolMapper": "oidc-audience-mapper", "config": object{
				"included.custom.audience": "https://api.example.org", "access.token.claim": "true"}}},
	})
	for _, c := range clients {
		if c["clientId"] == "groups" {
			c["protocolMappers"] = []object{{"name": "groups", "protocol": "openid-connect",
				"protocolMapper": "oidc-group-membership-mapper", "config": object{
					"claim.name": "groups", "full.path": "false",
					"id.token.claim": "true", "access.token.claim": "true", "userinfo.token.claim": "true"}}}
		}
	}
	person := func(name, title string, verified bool, more object) object {
		first, last, _ := strings.Cut(title, " ")
		u := object{"username": name, "firstName": first, "lastName": last, "email": name + "@example.org",
			"emailVerified": verified, "enabled": true,
			"credentials": []object{{"type": "password", "value": keycloakSecret}}}
		for key, value := range more {
			u[key] = value
		}
		return u
	}
	otp := object{"type": "otp", "secretData": fmt.Sprintf(`{"value":%q}`, keycloakOTP),
		"credentialData": `{"subType":"totp","digits":6,"period":30,"algorithm":"HmacSHA1","secretEncoding":"BASE32"}`}
	k.admin("POST", "", object{
		"realm": "main", "enabled": true, "sslRequired": "external", "clients": clients,
		"otpPolicyType": "totp", "otpPolicyAlgorithm": "HmacSHA1", "otpPolicyInitialCounter": 0, "otpPolicyDigits": 6,
		"otpPolicyLookAheadWindow": 10, "otpPolicyPeriod": 30,
		"roles": object{
			"realm":  []object{{"name": "user"}, {"name": "admin"}},
			"client": object{"client-roles": []object{{"name": "admin"}, {"name": "editor"}}},
		},
		"groups": []object{{"name": "admin"}, {"name": "staff"}},
		"users": []object{
			person("alice", "Alice Example", true,
				object{"realmRoles": []string{"default-roles-main", "user", "admin"}, "groups": []string{"/admin", "/staff"},
					"clientRoles": object{"client-roles": []string{"admin", "editor"}}}),
			person("bob", "Bob Example", false, object{"realmRoles": []string{"default-roles-main", "user"},
				"groups":      []string{"/staff"},
				"clientRoles": object{"client-roles": []string{"editor"}}}),
			person("carol", "Carol Example", true, object{"credentials": []object{
				{"type": "password", "value": keycloakSecret}, otp}}),
		},
	}, nil)
	k.levels("levels", "methods")
}

// atKeycloak is a gateway, the Keycloak that it uses, and a recorder.
type atKeycloak struct {
	*world.Delegated
	k *keycloak
}

// opens opens a page of the gateway that leads to Keycloak's form.
func (a *atKeycloak) opens(t *testing.T, b *browser, provider string) {
	t.Helper()
	b.Open(a.Base + "/login?provider=" + provider + "&return_to=/secure-resource")
	if f, ok := b.Form(); !ok || !f.Fields.Has("password") || !strings.HasPrefix(b.URL.String(), a.k.base) {
		t.Fatalf("Keycloak asks for no password: %s\n%s", b.Describe(), a.Log)
	}
}

// signedIn is a new browser in which a user has signed in at a provider.
func (a *atKeycloak) signedIn(t *testing.T, provider, user string) *browser {
	t.Helper()
	b := browse(a.Delegated.Instance)
	a.opens(t, b, provider)
	b.Send(map[string]string{"username": user, "password": keycloakSecret})
	if b.URL.String() != a.Base+"/secure-resource" {
		t.Fatalf("Keycloak does not send %s back: %s\n%s", user, b.Describe(), a.Log)
	}
	a.Up.All()
	return b
}

// roles returns the roles that the upstream gets, in order.
func (a *atKeycloak) roles(t *testing.T, b *browser) []string {
	t.Helper()
	a.Up.All()
	a.Status(b.Client, "GET", "/secure-resource")
	roles := strings.Split(a.Up.One(t).Value(t, "X-Auth-Roles"), ",")
	slices.Sort(roles)
	return roles
}

// TestKeycloak signs people in at Keycloak with the configuration of
// docs/providers/keycloak.md. The stories come in order, because they share one
// Keycloak, which is costly.
func TestKeycloak(t *testing.T) {
	a := startAtKeycloak(t)
	for _, story := range []struct {
		name string
		tell func(*testing.T, *atKeycloak)
	}{
		{"code flow with PKCE", keycloakCodeFlow},
		{"roles", keycloakRoles},
		{"refresh", keycloakRefresh},
		{"account disabled", keycloakDisabled},
		{"logout", keycloakLogout},
		{"logout redirects", keycloakLogoutRedirects},
		{"back-channel logout", keycloakBackChannel},
		{"key rotation", keycloakKeys},
		{"bearer tokens", keycloakBearer},
		{"step-up", keycloakStepUp},
		{"down and back", keycloakDown},
	} {
		t.Run(story.name, func(t *testing.T) { story.tell(t, a) })
	}
}

// startAtKeycloak starts the gateway, then Keycloak, which must trust the
// authority that the gateway has created.
func startAtKeycloak(t *testing.T) *atKeycloak {
	t.Helper()
	k := &keycloak{t: t, base: "http://127.0.0.1:" + world.FreePort(t), data: filepath.Join(t.TempDir(), "keycloak"),
		log: &world.Output{}}
	a := &atKeycloak{Delegated: &world.Delegated{Instance: world.Prepare(t), Up: world.Record(t)}, k: k}
	config := strings.Replace(world.DelegatedRoutes, "routes:\n",
		"routes:\n  - {match: /api, upstream: app, auth: [bearer]}\n"+keycloakStepUpRoutes, 1) + world.App(a.Up.URL) +
		"token: {trusted_issuers: [{issuer: '" + k.base + "/realms/main', name: programs, audience: " +
		"['https://api.example.org'], roles_claim: realm_access.roles, " +
		"username_claim: preferred_username}]}\nproviders:\n"
	for _, c := range keycloakClients() {
		config += c.provider(k)
	}
	a.Configure(config)
	a.Run()
	k.ca = filepath.Join(a.Dir, a.CA)
	k.run()
	k.realm(a.Instance)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Keycloak says:\n%s", k.log)
		}
	})
	return a
}
