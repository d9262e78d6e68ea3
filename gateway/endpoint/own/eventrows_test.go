package own_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// witness is a gateway where alice is signed in, and an identity provider where carol can sign in.
type witness struct {
	*rig.Rig
	provider *rig.Provider
	in       rig.SignedIn
	key      *authenticator.Authenticator // of alice, after addPasskey
	secret   string                       // of alice's app for codes, after addTOTP
	yaml     string
}

// witnessOAuth has clients of users, one of devices, one of its own, and registration.
const witnessOAuth = `oauth:
  enabled: true
  registration: open
  clients:
    - {id: wiki, secret: "` + rig.OAuthSecret + `", consent: skip, redirect_uris: ["https://wiki.example.net/cb"]}
    - {id: admins, secret: "` + rig.OAuthSecret + `", policy: admin, redirect_uris: ["https://wiki.example.net/cb"]}
    - {id: job, secret: "` + rig.OAuthSecret + `", grants: [client_credentials], roles: [user]}
    - {id: tv, grants: [device_code]}
`

func newWitness(t *testing.T) *witness {
	t.Helper()
	p := rig.NewProvider(t)
	const file = "accounts.yaml"
	base := rig.Edit(t, rig.FileConfig(file), file+"}", file+", admins: {roles: [admin]}}") +
		"  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session]}\n"
	w := &witness{provider: p, yaml: p.Config(base, witnessOAuth)}
	w.Rig = rig.WithFile(t, w.yaml, file, rig.FileAccounts)
	p.Now = w.Clock.Now
	p.Claims = map[string]any{"sid": "of carol"}
	w.in = w.Login(rig.Alice)
	return w
}

// send sends a request of alice with JSON.
func (w *witness) send(path, body string) *httptest.ResponseRecorder {
	return w.Do("POST", path, body, rig.JSON, w.in.Cookie)
}

// sendForm sends a form of a program, without a cookie.
func (w *witness) sendForm(path string, pairs ...string) *httptest.ResponseRecorder {
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return w.Do("POST", path, form.Encode(), rig.Form)
}

// addTOTP gives alice a second factor.
func (w *witness) addTOTP() *httptest.ResponseRecorder {
	var made struct{ Secret string }
	must.Do(w.T, json.Unmarshal(w.send("/account/totp", "{}").Body.Bytes(), &made))
	w.secret = made.Secret
	return w.send("/account/totp/confirm", `{"code":"`+w.code()+`"}`)
}

// addPasskey gives alice a passkey.
func (w *witness) addPasskey() *httptest.ResponseRecorder {
	w.key = &authenticator.Authenticator{Origin: "https://gw.example", Verified: true}
	created := must.Get(w.key.Create(w.send("/account/passkeys/options", "").Body.Bytes()))(w.T)
	return w.send("/account/passkeys", `{"name":"key","credential":`+string(created)+`}`)
}

// code returns the code of alice's app, after addTOTP.
func (w *witness) code() string { return must.Get(authenticator.Code(w.secret, w.Clock.Now()))(w.T) }

// answerPasskey signs in with the passkey.
func (w *witness) answerPasskey() *httptest.ResponseRecorder {
	options := w.Do("POST", "/signin/passkey/options", "").Body.Bytes()
	return w.Do("POST", "/signin/passkey", string(must.Get(w.key.Get(options))(w.T)), rig.JSON)
}

// submit sends the form of a page, with the cookies of a browser and what the user enters.
func (w *witness) submit(page *httptest.ResponseRecorder, cookies string, pairs ...string) *httptest.ResponseRecorder {
	action, fields := rig.FormOf(w.T, page)
	for i := 0; i+1 < len(pairs); i += 2 {
		fields.Set(pairs[i], pairs[i+1])
	}
	return w.Do("POST", action, fields.Encode(), rig.Form, rig.Browser, "Origin: https://gw.example",
		"Sec-Fetch-Site: same-origin", cookies)
}

// decide sends what alice decides on a page.
func (w *witness) decide(page *httptest.ResponseRecorder, decision string) *httptest.ResponseRecorder {
	return w.submit(page, w.in.Cookie, "decision", decision)
}

// useInvitation sets a password of bob, whom alice has invited.
func (w *witness) useInvitation() *httptest.ResponseRecorder {
	var made struct{ URL string }
	must.Do(w.T, json.Unmarshal(w.send("/account/people/invite", `{"username":"bob"}`).Body.Bytes(), &made))
	page := w.Do("GET", strings.TrimPrefix(made.URL, "https://gw.example"), "", rig.Browser)
	return w.submit(page, "", "new", "looking-glass", "again", "looking-glass")
}

// enterCode enters the code of a device.
func (w *witness) enterCode() *httptest.ResponseRecorder {
	var started struct {
		Code string `json:"user_code"`
	}
	must.Do(w.T, json.Unmarshal(w.sendForm("/oauth/device", "client_id", "tv").Body.Bytes(), &started))
	return w.Do("POST", "/device", "user_code="+started.Code, rig.Form, rig.Browser, w.in.Cookie,
		"Origin: https://gw.example")
}

// tokenOfAdmins returns an access token of the client admins.
func (w *witness) tokenOfAdmins() string {
	answer := w.decide(w.authorizeAs("admins", w.in.Cookie), "allow")
	var lent rig.Lent
	must.Do(w.T, json.Unmarshal(w.sendForm("/oauth/token", "grant_type", "authorization_code",
		"client_id", "admins", "client_secret", rig.OAuthSecret, "code", rig.QueryOf(w.T, answer).Get("code"),
		"code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").Body.Bytes(), &lent))
	return lent.Access
}

// refuseAdmins makes the policy of the client admins refuse alice.
func (w *witness) refuseAdmins() {
	w.Reload(rig.Edit(w.T, w.yaml, "admin: {roles: [admin]}", "admin: {roles: [owner]}"))
}

// authorizeAs asks for a code for a client, with the session of a cookie.
func (w *witness) authorizeAs(client, cookie string) *httptest.ResponseRecorder {
	query := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {"https://wiki.example.net/cb"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	return w.Do("GET", "/oauth/authorize?"+query.Encode(), "", rig.Browser, cookie)
}

// eventOf is an event that the page says a request leaves.
type eventOf struct{ request, event string }

// eventRequests sends the request of a row so that the gateway records the event.
var eventRequests = map[eventOf]func(*witness) *httptest.ResponseRecorder{
	{"POST /login", "login"}: func(w *witness) *httptest.ResponseRecorder { return w.send("/login", rig.Bob) },
	{"POST /refresh", "refresh"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/refresh", rig.RefreshBody(w.in.Refresh))
	},
	{"POST /refresh", "reuse_detected"}: func(w *witness) *httptest.ResponseRecorder {
		w.Refresh(w.in.Refresh)
		w.Clock.Advance(time.Minute)
		return w.send("/refresh", rig.RefreshBody(w.in.Refresh))
	},
	{"POST /login", "login failure"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/login", `{"username":"alice","password":"x"}`)
	},
	{"POST /refresh", "refresh failure"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/refresh", rig.RefreshBody("x"))
	},
	{"GET /logout", "logout"}: func(w *witness) *httptest.ResponseRecorder {
		return w.Do("GET", "/logout", "", w.in.Cookie)
	},
	{"POST /logout", "logout"}: func(w *witness) *httptest.ResponseRecorder { return w.send("/logout", "") },
	{"GET /frontchannel-logout/PROVIDER", "frontchannel_logout"}: func(w *witness) *httptest.ResponseRecorder {
		w.Carol()
		return w.Do("GET", "/frontchannel-logout/small?sid=of+carol", "")
	},
	{"POST /backchannel-logout/PROVIDER", "backchannel_logout"}: func(w *witness) *httptest.ResponseRecorder {
		w.Carol()
		logout := w.provider.Bearer(map[string]any{
			"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": struct{}{}},
		})
		_, token, _ := strings.Cut(logout, "Bearer ")
		return w.sendForm("/backchannel-logout/small", "logout_token", token)
	},
	{"POST /backchannel-logout/PROVIDER", "credential_refused"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/backchannel-logout/small", "logout_token", "x")
	},
	{"GET /callback", "login"}: func(w *witness) *httptest.ResponseRecorder {
		back := w.Leave("")
		return w.Do("GET", back.Target, "", back.Cookie)
	},
	{"GET /callback", "login failure"}: func(w *witness) *httptest.ResponseRecorder {
		return w.Do("GET", w.Leave("").Target, "")
	},
	{"GET /auth/callback", "login failure"}: func(w *witness) *httptest.ResponseRecorder {
		return w.Do("GET", "/auth"+w.Leave("").Target, "")
	},
	{"GET /callback/PROVIDER", "login failure"}: func(w *witness) *httptest.ResponseRecorder {
		return w.Do("GET", strings.Replace(w.Leave("").Target, "?", "/small?", 1), "")
	},
	{"GET /auth/callback", "login"}: func(w *witness) *httptest.ResponseRecorder {
		back := w.Leave("")
		return w.Do("GET", "/auth"+back.Target, "", back.Cookie)
	},
	{"GET /callback/PROVIDER", "login"}: func(w *witness) *httptest.ResponseRecorder {
		back := w.Leave("")
		return w.Do("GET", strings.Replace(back.Target, "?", "/small?", 1), "", back.Cookie)
	},
	{"POST /account/sessions/end", "logout"}: func(w *witness) *httptest.ResponseRecorder {
		w.Another()
		return w.send("/account/sessions/end", `{"others":true}`)
	},
	{"POST /account/sessions/end", "token_revoked"}: func(w *witness) *httptest.ResponseRecorder {
		w.NewToken(w.in.Cookie, "")
		return w.send("/account/sessions/end", `{"others":true,"tokens":true}`)
	},
	{"POST /account/password", "password_changed"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/account/password", rig.ChangeTo("wonderland", "looking-glass"))
	},
	{"POST /account/password", "password_changed failure"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/account/password", rig.ChangeTo("x", "looking-glass"))
	},
	{"POST /account/password", "logout"}: func(w *witness) *httptest.ResponseRecorder {
		w.Another()
		return w.send("/account/password", rig.ChangeTo("wonderland", "looking-glass"))
	},
	{"POST /account/tokens", "token_created"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/account/tokens", `{"name":"backup","expires_in":60}`)
	},
	{"POST /account/tokens/revoke", "token_revoked"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/account/tokens/revoke", `{"id":"`+w.NewToken(w.in.Cookie, "").ID+`"}`)
	},
	{"POST /account/totp", "factor_begun"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/account/totp", "{}")
	},
	{"POST /account/passkeys", "factor_added"}: (*witness).addPasskey,
	{"POST /account/passkeys/remove", "factor_removed"}: func(w *witness) *httptest.ResponseRecorder {
		var made struct{ ID string }
		must.Do(w.T, json.Unmarshal(w.addPasskey().Body.Bytes(), &made))
		return w.send("/account/passkeys/remove", `{"id":"`+made.ID+`"}`)
	},
	{"POST /account/totp/confirm", "factor_added"}: (*witness).addTOTP,
	{"POST /account/totp/confirm", "credential_refused"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/account/totp/confirm", `{"code":"000000"}`)
	},
	{"POST /account/totp/remove", "factor_removed"}: func(w *witness) *httptest.ResponseRecorder {
		w.addTOTP()
		return w.send("/account/totp/remove", "{}")
	},
	{"POST /account/recovery-codes", "recovery_codes_replaced"}: func(w *witness) *httptest.ResponseRecorder {
		w.addTOTP()
		return w.send("/account/recovery-codes", "{}")
	},
	{"POST /account/clients/revoke", "client_revoked"}: func(w *witness) *httptest.ResponseRecorder {
		w.Lend(w.in.Cookie, "", "")
		return w.send("/account/clients/revoke", `{"client_id":"wiki"}`)
	},
	{"POST /signin/code", "login"}: func(w *witness) *httptest.ResponseRecorder {
		w.addTOTP()
		w.Clock.Advance(time.Minute)
		page := w.Do("POST", "/login", rig.AliceForm, rig.Form, rig.Browser)
		return w.submit(page, rig.JarOf(page).Line(), "code", w.code())
	},
	{"POST /signin/code", "login failure"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/signin/code", "step", "x", "code", "000000")
	},
	{"POST /signin/passkey/options", "login failure"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/signin/passkey/options", `{"username":"alice","password":"x"}`)
	},
	{"POST /signin/invite", "invitation_used"}: (*witness).useInvitation,
	{"POST /signin/invite", "login"}:           (*witness).useInvitation,
	{"POST /signin/invite", "logout"}: func(w *witness) *httptest.ResponseRecorder {
		w.Login(rig.Bob)
		return w.useInvitation()
	},
	{"POST /signin/invite", "credential_refused"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/signin/invite", "token", "x", "new", "looking-glass", "again", "looking-glass")
	},
	{"GET /signin/complete", "session"}: func(w *witness) *httptest.ResponseRecorder {
		bob := w.Person()
		bob.SignIn("https://wiki.example.org/", "bob")
		bob.Jars["wiki.example.org"] = rig.Jar{}
		return bob.Ask("GET", bob.TicketOf("wiki.example.org"), "")
	},
	{"GET /signin/complete", "credential_refused"}: func(w *witness) *httptest.ResponseRecorder {
		return w.Do("GET", "/signin/complete?ticket=x", "")
	},
	{"POST /device", "credential_refused"}: func(w *witness) *httptest.ResponseRecorder {
		return w.Do("POST", "/device", "user_code=BCDF-GHJK", rig.Form, w.in.Cookie, "Sec-Fetch-Site: same-origin")
	},
	{"POST /device", "denied"}: func(w *witness) *httptest.ResponseRecorder {
		return w.Do("POST", "/device", "user_code=BCDF-GHJK", rig.Form, w.in.Cookie, "Sec-Fetch-Site: cross-site")
	},
	{"POST /signin/passkey", "login"}: func(w *witness) *httptest.ResponseRecorder {
		w.addPasskey()
		return w.answerPasskey()
	},
	{"POST /signin/passkey", "login failure"}: func(w *witness) *httptest.ResponseRecorder {
		w.addPasskey()
		stranger := &authenticator.Authenticator{Origin: "https://gw.example", Verified: true}
		must.Get(stranger.Create(w.send("/account/passkeys/options", "").Body.Bytes()))(w.T)
		w.key = stranger
		return w.answerPasskey()
	},
	{"GET /oauth/authorize", "client_authorized"}: func(w *witness) *httptest.ResponseRecorder {
		return w.authorizeAs("wiki", w.in.Cookie)
	},
	{"GET /oauth/authorize", "denied"}: func(w *witness) *httptest.ResponseRecorder {
		return w.authorizeAs("admins", w.Login(rig.Bob).Cookie)
	},
	{"POST /oauth/authorize", "client_authorized"}: func(w *witness) *httptest.ResponseRecorder {
		return w.decide(w.authorizeAs("admins", w.in.Cookie), "allow")
	},
	{"POST /oauth/authorize", "client_refused"}: func(w *witness) *httptest.ResponseRecorder {
		return w.decide(w.authorizeAs("admins", w.in.Cookie), "deny")
	},
	{"POST /oauth/authorize", "denied"}: func(w *witness) *httptest.ResponseRecorder {
		page := w.authorizeAs("admins", w.in.Cookie)
		w.refuseAdmins()
		return w.decide(page, "allow")
	},
	{"POST /device", "client_authorized"}: func(w *witness) *httptest.ResponseRecorder {
		return w.decide(w.enterCode(), "allow")
	},
	{"POST /device", "client_refused"}: func(w *witness) *httptest.ResponseRecorder {
		return w.decide(w.enterCode(), "deny")
	},
	{"GET /oauth/userinfo", "denied"}: func(w *witness) *httptest.ResponseRecorder {
		token := w.tokenOfAdmins()
		w.refuseAdmins()
		return w.Do("GET", "/oauth/userinfo", "", "Authorization: Bearer "+token)
	},
	{"POST /oauth/userinfo", "denied"}: func(w *witness) *httptest.ResponseRecorder {
		token := w.tokenOfAdmins()
		w.refuseAdmins()
		return w.sendForm("/oauth/userinfo", "access_token", token)
	},
	{"GET /oauth/logout", "logout"}: func(w *witness) *httptest.ResponseRecorder {
		hint := w.Lend(w.in.Cookie, "openid", "").ID
		return w.Do("GET", "/oauth/logout?id_token_hint="+hint, "", rig.Browser, w.in.Cookie)
	},
	{"POST /oauth/logout", "logout"}: func(w *witness) *httptest.ResponseRecorder {
		return w.decide(w.Do("GET", "/oauth/logout", "", rig.Browser, w.in.Cookie), "allow")
	},
	{"POST /oauth/token", "token_issued"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/oauth/token", "client_id", "job", "client_secret", rig.OAuthSecret,
			"grant_type", "client_credentials", "resource", "https://gw.example/bearer")
	},
	{"POST /oauth/token", "reuse_detected"}: func(w *witness) *httptest.ResponseRecorder {
		refresh := w.Lend(w.in.Cookie, "", "").Refresh
		pairs := []string{"client_id", "wiki", "client_secret", rig.OAuthSecret, "grant_type", "refresh_token",
			"refresh_token", refresh}
		w.sendForm("/oauth/token", pairs...)
		w.Clock.Advance(time.Minute)
		return w.sendForm("/oauth/token", pairs...)
	},
	{"POST /oauth/token", "client_rejected"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/oauth/token", "client_id", "wiki", "client_secret", "x")
	},
	{"POST /oauth/token", "credential_refused"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/oauth/token", "client_id", "wiki", "client_secret", rig.OAuthSecret,
			"grant_type", "authorization_code", "code", "x")
	},
	{"POST /oauth/device", "device_started"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/oauth/device", "client_id", "tv")
	},
	{"POST /oauth/device", "client_rejected"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/oauth/device", "client_id", "stranger")
	},
	{"POST /oauth/revoke", "token_revoked"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/oauth/revoke", "client_id", "wiki", "client_secret", rig.OAuthSecret,
			"token", w.Lend(w.in.Cookie, "", "").Access)
	},
	{"POST /oauth/revoke", "client_rejected"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/oauth/revoke", "client_id", "stranger", "token", "x")
	},
	{"POST /oauth/introspect", "client_rejected"}: func(w *witness) *httptest.ResponseRecorder {
		return w.sendForm("/oauth/introspect", "client_id", "stranger", "token", "x")
	},
	{"POST /oauth/register", "client_registered"}: func(w *witness) *httptest.ResponseRecorder {
		return w.send("/oauth/register", `{"redirect_uris":["https://app.example.net/cb"]}`)
	},
}

// withWrongToken sends the request of a row with a token that is none.
func withWrongToken(w *witness, request string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(request, " ")
	return w.Do(method, path, "{}", rig.JSON, "Authorization: Bearer x")
}

// documentedEvents returns the events that the page promises. Some are one event for both results.
func documentedEvents(t *testing.T) (all []eventOf) {
	for _, row := range eventRows(t) {
		for _, request := range row.requests {
			for _, event := range row.given {
				all = append(all, eventOf{request, event})
			}
			for _, event := range row.refused {
				if slices.Contains([]string{"login", "refresh", "password_changed"}, event) {
					event += " failure"
				}
				all = append(all, eventOf{request, event})
			}
		}
	}
	return all
}

// Requests of the page's rows leave the events that the page promises, with the id that the answer has.
func TestEventsAppear(t *testing.T) {
	t.Parallel()
	documented := documentedEvents(t)
	for of := range eventRequests {
		if !slices.Contains(documented, of) {
			t.Errorf("docs/observability/credentials.md does not have %s at %s", of.event, of.request)
		}
	}
	shared := newWitness(t) // of requests that change nothing
	for _, of := range documented {
		send, w := eventRequests[of], shared
		switch {
		case send != nil:
			w = newWitness(t)
		case of.event == "credential_refused":
			send = func(w *witness) *httptest.ResponseRecorder { return withWrongToken(w, of.request) }
		default:
			t.Errorf("no request shows that %s leaves %s", of.request, of.event)
			continue
		}
		answer := send(w)
		if !w.hasEvent(of.event, answer.Header().Get("X-Request-Id")) {
			t.Errorf("%s, answered with %d %s, leaves no %s", of.request, answer.Code, answer.Body, of.event)
		}
	}
}

// hasEvent reports whether the log has an event of a request.
func (w *witness) hasEvent(event, request string) bool {
	return slices.ContainsFunc(w.Log.Records(w.T, "audit"), func(line map[string]any) bool {
		name, _ := line["event"].(string)
		if line["result"] == "failure" {
			name += " failure"
		}
		return name == event && request != "" && line["request_id"] == request
	})
}
