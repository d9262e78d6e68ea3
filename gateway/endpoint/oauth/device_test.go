package oauth_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// deviceStart is what a device is told.
type deviceStart struct {
	Device    string `json:"device_code"`
	User      string `json:"user_code"`
	URI       string `json:"verification_uri"`
	Complete  string `json:"verification_uri_complete"`
	ExpiresIn int    `json:"expires_in"`
	Interval  int    `json:"interval"`
}

func (s *server) device(t *testing.T) (d deviceStart) {
	t.Helper()
	form := url.Values{"client_id": {"tv"}, "scope": {"openid"}, "resource": {"https://gw.example/bearer"}}
	w := s.Want(200, "POST", "/oauth/device", form.Encode(), rig.Form)
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &d))
	return d
}

// poll asks for the tokens of a device.
func (s *server) poll(t *testing.T, status int, code string, change ...string) answer {
	t.Helper()
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {code}, "client_id": {"tv"},
	}
	for i := 0; i+1 < len(change); i += 2 {
		form.Set(change[i], change[i+1])
	}
	return s.post(t, status, "/oauth/token", form)
}

// enter enters a code on the page of devices.
func (s *server) enter(code string, header ...string) *httptest.ResponseRecorder {
	return s.Do("POST", "/device", url.Values{"user_code": {code}}.Encode(),
		append([]string{rig.Form, rig.Browser, s.cookie, "Origin: " + issuer}, header...)...)
}

// A device gets tokens when the user has entered its code and allowed it (RFC 8628).
func TestDevice(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	d := s.device(t)
	if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(d.User) ||
		d.URI != issuer+"/device" || d.Complete != issuer+"/device?user_code="+d.User ||
		d.ExpiresIn != 600 || d.Interval != 5 {
		t.Errorf("%+v", d)
	}
	if a := s.poll(t, 400, d.Device); a.Error != "authorization_pending" {
		t.Errorf("before: %+v", a)
	}
	s.Clock.Advance(time.Second)
	if a := s.poll(t, 400, d.Device); a.Error != "slow_down" {
		t.Errorf("too often: %+v", a)
	}
	// The link fills in the code, and decides nothing.
	place, values := answerOf(t, s.Do("GET", "/device?user_code="+d.User, "", rig.Browser))
	if place != "/signin" || values.Get("return_to") != "/device?user_code="+d.User {
		t.Errorf("not signed in: %s %v", place, values)
	}
	page := s.Do("GET", "/device?user_code="+d.User, "", rig.Browser, s.cookie)
	if page.Code != 200 {
		t.Errorf("the page: %d", page.Code)
	}
	rig.WantPage(t, page, `name="user_code" type="text" value="`+d.User+`"`,
		`name="back" value="/device?user_code=`+d.User+`"`) // the choice of a language keeps it
	asks := s.enter(strings.ToLower(strings.ReplaceAll(d.User, "-", " ")))
	rig.WantPage(t, asks, `name="back" value="/device?user_code=`)
	form := formOf(t, asks)
	if w := s.decide(form, "allow", fromOtherSite...); w.Code != 403 {
		t.Errorf("another site decides: %d", w.Code)
	}
	mine := s.cookie
	s.cookie = s.Login(rig.Bob).Cookie
	if w := s.decide(form, "allow"); w.Code != 403 {
		t.Errorf("another user decides with the form: %d", w.Code)
	}
	s.cookie = mine
	if w := s.decide(form, "allow"); w.Code != 200 {
		t.Fatalf("allowed: %d %s", w.Code, w.Body)
	}
	s.Clock.Advance(time.Minute)
	if a := s.poll(t, 400, d.Device, "client_id", "spa"); a.Error == "" {
		t.Errorf("another client: %+v", a)
	}
	a := s.poll(t, 200, d.Device)
	if claims := claimsOf(t, a.Access); claims["sub"] != "alice" || claims["aud"] != "https://gw.example/bearer" {
		t.Errorf("%v", claims)
	}
	if a := s.poll(t, 400, d.Device); a.Error != "invalid_grant" && a.Error != "expired_token" {
		t.Errorf("again: %+v", a)
	}
}

// A device whose code the user refuses, or no user enters in time, gets nothing.
func TestDeviceRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	refused, late := s.device(t), s.device(t)
	if w := s.decide(formOf(t, s.enter(refused.User)), "deny"); w.Code != 200 {
		t.Errorf("refused: %d", w.Code)
	}
	if a := s.poll(t, 400, refused.Device); a.Error != "access_denied" {
		t.Errorf("refused: %+v", a)
	}
	s.Clock.Advance(11 * time.Minute)
	if a := s.poll(t, 400, late.Device); a.Error != "expired_token" {
		t.Errorf("late: %+v", a)
	}
	if w := s.enter(late.User); w.Code != 400 {
		t.Errorf("a late code: %d", w.Code)
	}
}

// The audit log says which device a user has let in or refused, and which client has registered.
func TestDeviceAudited(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration+"  registration: open\n")
	s.decide(formOf(t, s.enter(s.device(t).User)), "allow")
	s.decide(formOf(t, s.enter(s.device(t).User)), "deny")
	w := s.Want(201, "POST", "/oauth/register", `{"redirect_uris":["https://app.example.net/cb"]}`, rig.JSON)
	var made struct {
		ID string `json:"client_id"`
	}
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &made))
	want := []string{
		"login local:alice <nil> <nil>", "device_started <nil> tv https://gw.example/bearer",
		"client_authorized local:alice tv https://gw.example/bearer", "device_started <nil> tv https://gw.example/bearer",
		"client_refused local:alice tv https://gw.example/bearer", "client_registered <nil> " + made.ID + " <nil>",
	}
	var got []string
	for _, line := range s.Log.Records(t, "audit") {
		got = append(got, fmt.Sprint(line["event"], " ", line["subject"], " ", line["client_id"], " ", line["resource"]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
}

// A device learns that its code has expired, however short the code lives (RFC 8628, section 3.5).
func TestExpiredDevice(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration+"  device_lifetime: 1s\n")
	d := s.device(t)
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 30 * time.Minute} {
		s.Clock.Advance(wait)
		if a := s.poll(t, 400, d.Device); a.Error != "expired_token" {
			t.Errorf("%v later: %+v", wait, a)
		}
	}
}

// Wrong codes count as failed logins, so that no user can look for the devices of others.
func TestDeviceCodesCannotBeGuessed(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	d := s.device(t)
	for range 10 {
		if w := s.enter("BBBB-BBBB"); w.Code != 400 {
			t.Fatalf("a wrong code: %d %s", w.Code, w.Body)
		}
	}
	if w := s.enter(d.User); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("the right code after ten wrong ones: %d", w.Code)
	}
}

// A right code of a device makes no address known: failures elsewhere lock the account there, as at
// every address from which its user has not signed in.
func TestDeviceCodeIsNoSignIn(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	at := func(status, from int, path, body, media string, header ...string) *httptest.ResponseRecorder {
		t.Helper()
		q := rig.Request("POST", path, body, append(header, media)...)
		q.RemoteAddr = fmt.Sprintf("198.51.100.%d:1", from)
		return s.WantOf(status, q)
	}
	code := url.Values{"user_code": {s.device(t).User}}.Encode()
	at(200, 1, "/device", code, rig.Form, rig.Browser, s.cookie, "Origin: "+issuer)
	for i := range 10 {
		at(401, 100+i, "/login", `{"username":"alice","password":"guess"}`, rig.JSON)
	}
	at(429, 1, "/login", rig.Alice, rig.JSON)
	at(429, 1, "/device", code, rig.Form, rig.Browser, s.cookie, "Origin: "+issuer)
	s.Want(200, "POST", "/login", rig.Alice, rig.JSON) // where alice has signed in
}
