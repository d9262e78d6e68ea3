package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"authgate/gateway/cookiename"
)

// Whatever a client sends, no cookie of the gateway goes on, none of the
// others is lost, and net/http reads the lines as the gateway does.
func FuzzCookies(f *testing.F) {
	for _, line := range []string{
		"session_id=abc; a=1", "a=1;session_id=x;b=2", " session_id\t= x;; =y", `a="session_id=x; b=2"`, "session_id", "session_id=;session_id=x",
		"SESSION_ID=x; session=1; access_token=2; refresh_token=3", "a\x00b=\xff; session_id=\x80", "; ;=;session_id =", "\rsession=0\n",
	} {
		f.Add(line, "b=2")
		f.Add("x=y", line)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		lines := []string{first, second}
		if strings.Contains(first+second, cookiename.Mark) {
			return // FuzzSeparateCookies is about these
		}
		read, err := ReadCredentials(http.Header{"Cookie": lines}, testCookies, netip.Addr{})
		kept := testCookies.ToApplication(lines, false)
		again, errAgain := ReadCredentials(http.Header{"Cookie": kept}, testCookies, netip.Addr{})
		if errAgain != nil || again != (Credentials{}) {
			t.Fatalf("%q is left of %q, in which there is %+v, %v", kept, lines, again, errAgain)
		}
		if !slices.Equal(testCookies.ToApplication(kept, false), kept) {
			t.Errorf("%q changes when cut again", kept)
		}
		if err == nil && !read.Cookies && !slices.Equal(pairs(lines), pairs(kept)) {
			t.Errorf("nothing of the gateway is in %q, and %q is left", lines, kept)
		}
		likeNetHTTP(t, lines, kept, read, err)
	})
}

func pairs(lines []string) (all []string) {
	for _, line := range lines {
		for _, pair := range strings.Split(line, ";") {
			if pair = strings.Trim(pair, cookieSpace); pair != "" {
				all = append(all, pair)
			}
		}
	}
	return all
}

// likeNetHTTP compares with what net/http reads, where it can.
func likeNetHTTP(t *testing.T, lines, kept []string, read Credentials, err error) {
	t.Helper()
	var others []string
	values := make(map[string][]string)
	for _, line := range lines {
		cookies, err := http.ParseCookie(line)
		if err != nil {
			return
		}
		for _, c := range cookies {
			value := strings.Trim(c.Value, cookieSpace)
			if c.Quoted {
				value = `"` + c.Value + `"`
			}
			if !testCookies.has(c.Name) {
				others = append(others, c.Name+"="+value)
			} else if !slices.Contains(values[c.Name], value) {
				values[c.Name] = append(values[c.Name], value)
			}
		}
	}
	want := Credentials{Cookies: len(values) > 0}
	for name, at := range map[string]*string{"session_id": &want.Session, "session": &want.Delegated, "access_token": &want.Access, "refresh_token": &want.Refresh} {
		if len(values[name]) > 1 {
			if !errors.Is(err, ErrAmbiguous) {
				t.Errorf("%q holds two values of %s: got %+v, %v", lines, name, read, err)
			}
			return
		}
		*at = strings.Join(values[name], "")
	}
	if err != nil || read != want {
		t.Errorf("%q: got %+v, %v, want %+v", lines, read, err, want)
	}
	var left []string
	for _, line := range kept {
		cookies, err := http.ParseCookie(line)
		if err != nil {
			t.Fatalf("%q of %q is no list of cookies: %v", kept, lines, err)
		}
		for _, c := range cookies {
			value := strings.Trim(c.Value, cookieSpace)
			if c.Quoted {
				value = `"` + c.Value + `"`
			}
			left = append(left, c.Name+"="+value)
		}
	}
	if !slices.Equal(left, others) {
		t.Errorf("the application gets %q of %q, want %q", left, lines, others)
	}
}

// An Authorization header is a scheme in lower case and a value, and only with
// both is there anything to verify.
func FuzzAuthorization(f *testing.F) {
	for _, v := range []string{"Basic YTpi", "Bearer a.b.c", "bearer", "Bearer ", "a.b.c", " \tBASIC  x ", "Bearer\tx", "", "BASİC YTpi", "\xaf x"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		c, err := ReadCredentials(http.Header{"Authorization": {v}}, testCookies, netip.Addr{})
		if err != nil {
			t.Fatalf("%q: %v", v, err)
		}
		trimmed := strings.Trim(v, " \t")
		if strings.ContainsAny(c.Scheme, " ABCDEFGHIJKLMNOPQRSTUVWXYZ") || (c.Scheme == "") != (trimmed == "") {
			t.Errorf("%q is read as the scheme %q", v, c.Scheme)
		}
		if (c.Scheme == "basic" || c.Scheme == "bearer") && !strings.EqualFold(trimmed[:len(c.Scheme)], c.Scheme) {
			t.Errorf("%q is read as the scheme %q", v, c.Scheme)
		}
		if c.Value != "" && (strings.HasPrefix(c.Value, " ") || !strings.HasSuffix(trimmed, " "+c.Value)) {
			t.Errorf("%q is read as %q, %q: a value without a scheme word", v, c.Scheme, c.Value)
		}
		if _, err := ReadCredentials(http.Header{"Authorization": {v, v}}, testCookies, netip.Addr{}); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("twice: got %v", err)
		}
	})
}

// What Basic credentials are read as, they are the one spelling of.
func FuzzParseBasic(f *testing.F) {
	for _, raw := range []string{"a:b", "a:", ":", "a:b:c", "a", "\x00:b", "a:\xff", "ä:ü"} {
		f.Add(encoded(raw))
	}
	f.Add("!!!")
	f.Add("YTpi\n")
	f.Add("YTp=")
	f.Fuzz(func(t *testing.T, value string) {
		username, password, err := ParseBasic(value)
		if err != nil {
			if username != "" || password != "" {
				t.Errorf("%q: got %q, %q with the error %v", value, username, password, err)
			}
			return
		}
		if strings.Contains(username, ":") || encoded(username+":"+password) != value {
			t.Errorf("%q is read as %q, %q", value, username, password)
		}
		for _, r := range username + password {
			if r < 0x20 || r == 0x7f {
				t.Errorf("%q: control character %q", value, r)
			}
		}
		if !utf8.ValidString(username) || !utf8.ValidString(password) {
			t.Errorf("%q: got %q, %q, not UTF-8", value, username, password)
		}
	})
}

func FuzzBearerChangedByte(f *testing.F)      { fuzzChangedByte(f, "HS256") }
func FuzzBearerChangedByteRS256(f *testing.F) { fuzzChangedByte(f, "RS256") }

// fuzzChangedByte: one changed byte of a token never passes.
func fuzzChangedByte(f *testing.F, algorithm string) {
	m := newMechanisms(f, func(m *mechanisms) { m.keys = testKeys(f, algorithm) })
	s := m.signIn(f, "alice")
	for _, at := range []uint16{0, 10, 36, 37, 100, 300, 400, uint16(len(s.access) - 2), uint16(len(s.access) - 1)} {
		for _, with := range []byte{'A', 'g', '.', '=', '\r', '\n', '-', '_', 0, 0xff} {
			f.Add(at, with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(s.access)
		changed[int(at)%len(changed)] = with
		id, err := m.byToken(t, string(changed))
		if string(changed) == s.access {
			if err != nil {
				t.Fatalf("the token itself: %v", err)
			}
			return
		}
		wantRejected(t, id, err, DetailBadToken, "access token: ")
	})
}

// No header and payload pass that the gateway's key did not sign, and those it
// signed do only as a token of the login.
func FuzzBearerClaims(f *testing.F) {
	m := newMechanisms(f, nil)
	s := m.signIn(f, "alice")
	good := m.forge(f, s)
	part := strings.Split(good.token(), ".")
	header, claims := decoded(f, part[0]), decoded(f, part[1])
	f.Add(header, claims)
	f.Add(strings.Replace(header, "HS256", "none", 1), claims)
	f.Add(header, strings.Replace(claims, "alice", "bob", 1))
	f.Add(header, strings.Replace(claims, "{", `{"sub":"bob",`, 1))
	f.Add(header, `{"exp":1e300}`)
	forger := &forger{sign: signHS256([]byte("not the gateway's secret, but one of its length"))}
	f.Fuzz(func(t *testing.T, header, claims string) {
		id, err := m.byToken(t, forger.raw(header, claims))
		if id != nil {
			t.Fatalf("a forged token passes: %+v", id)
		}
		wantRejected(t, id, err, DetailBadToken, "access token: ")

		id, err = m.byToken(t, good.raw(header, claims))
		if err != nil {
			wantRejected(t, id, err, DetailBadToken, "access token: ")
			return
		}
		said := map[string]any{}
		if err := json.Unmarshal([]byte(claims), &said); err != nil {
			t.Fatalf("%s passes and is no object: %v", claims, err)
		}
		if said["sub"] != id.Username || said["iss"] != testIssuer || !m.clock.now().Before(id.Expires) {
			t.Errorf("%s passes as %+v", claims, id)
		}
		if sid, given := said["sid"]; given && (sid != s.login.ID || id.Login != s.login.ID || id.Username != "alice") || !given && id.Login != "" {
			t.Errorf("%s passes as %+v, of the login %s", claims, id, s.login.ID)
		}
	})
}

// A refresh token has one spelling, and only those that were issued do
// anything at all.
func FuzzRefreshToken(f *testing.F) {
	m := newMechanisms(f, nil)
	s := m.signIn(f, "alice")
	used := s.refresh
	s.refresh = m.wantRotated(f, s.refresh)
	m.clock.advance(testLeeway + 1)
	for _, token := range []string{s.refresh[:106] + "A", used[:106] + "A", s.refresh + "\n", "\n" + s.refresh[1:], "", "x", base64.RawURLEncoding.EncodeToString(make([]byte, 80)),
		refreshToken{family: make([]byte, 32), generation: make([]byte, 32)}.String()} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if parsed, ok := parseRefresh(token); ok && parsed.String() != token {
			t.Errorf("%q and %q are one token", token, parsed)
		}
		if token == s.refresh || token == used {
			return
		}
		rotation, err := m.rotate(t, token)
		var reuse *ReuseError
		if rotation != nil || !errors.Is(err, ErrRejected) || errors.As(err, &reuse) {
			t.Errorf("%q: got %+v, %v", token, rotation, err)
		}
		if _, err := m.bySession(t, s.session); err != nil {
			t.Fatalf("%q ended the login: %v", token, err)
		}
	})
}
