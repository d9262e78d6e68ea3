package account_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// userRig is a rig whose user changes an account.
type userRig struct{ *rig.Rig }

func newRig(t testing.TB, yaml string) *userRig { return &userRig{rig.New(t, yaml)} }

// newFileRig returns a rig with the accounts in a file, and more in its configuration.
func newFileRig(t testing.TB, name, content string, more ...string) (r *userRig, path string) {
	t.Helper()
	r = &userRig{rig.WithFile(t, rig.FileConfig(name)+strings.Join(more, ""), name, content)}
	r.EditTakes = 0
	return r, filepath.Join(r.Dir, name)
}

func signInWith(username, password string) string {
	return fmt.Sprintf(`{"username":%q,"password":%q}`, username, password)
}

func content(t testing.TB, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(path))(t))
}

// read reads the members of an answer.
func read[T any](t testing.TB, w *httptest.ResponseRecorder) (answer T) {
	t.Helper()
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer
}

type newSecret struct{ Secret, URI string }

type newCodes struct {
	ID, Name string
	Codes    []string `json:"recovery_codes"`
}

// addTOTP adds an app to the account of a session, and returns its secret and the recovery codes.
func (r *userRig) addTOTP(cookie string) (secret string, codes []string) {
	r.T.Helper()
	made := read[newSecret](r.T, r.Want(201, "POST", "/account/totp", "{}", rig.JSON, cookie))
	code := must.Get(authenticator.Code(made.Secret, r.Clock.Now()))(r.T)
	w := r.Want(200, "POST", "/account/totp/confirm", `{"code":"`+code+`"}`, rig.JSON, cookie)
	return made.Secret, read[newCodes](r.T, w).Codes
}

// addPasskey adds a passkey to the account of a session.
func (r *userRig) addPasskey(a *authenticator.Authenticator, name, cookie string) newCodes {
	r.T.Helper()
	options := r.Want(200, "POST", "/account/passkeys/options", "", cookie).Body.Bytes()
	body := passkeyBody(name, must.Get(a.Create(options))(r.T))
	w := r.Want(201, "POST", "/account/passkeys", body, rig.JSON, cookie)
	return read[newCodes](r.T, w)
}

func passkeyBody(name string, credential []byte) string {
	body, _ := json.Marshal(map[string]any{"name": name, "credential": json.RawMessage(credential)})
	return string(body)
}

func newAuthenticator() *authenticator.Authenticator {
	return &authenticator.Authenticator{Origin: "https://gw.example", Verified: true}
}

// wantFactors checks what a user sees of their factors, and that it tells no secret.
func (r *userRig) wantFactors(want, cookie string) {
	r.T.Helper()
	if got := strings.TrimSpace(r.Want(200, "GET", "/account/factors", "", cookie).Body.String()); got != want {
		r.T.Errorf("the factors are %s, want %s", got, want)
	}
}

// provesOnly makes a login one that has proved the methods, and no more.
func (r *userRig) provesOnly(cookie string, methods ...string) {
	r.T.Helper()
	key := "login:" + r.loginOf(cookie)
	login := map[string]any{}
	must.Do(r.T, json.Unmarshal(must.Get(r.Store.Get(r.T.Context(), key))(r.T), &login))
	login["proof"].(map[string]any)["amr"] = methods
	value := must.Get(json.Marshal(login))(r.T)
	must.Do(r.T, r.Store.Put(r.T.Context(), key, value, r.Clock.Now().Add(time.Hour)))
}

// loginOf returns the sid of the login of a session.
func (r *userRig) loginOf(cookie string) string {
	r.T.Helper()
	for _, login := range r.Logins(cookie) {
		if login.Current {
			return login.ID
		}
	}
	r.T.Fatal("the session has no login")
	return ""
}
