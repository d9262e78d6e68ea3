package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"authgate/internal/test/rig"
)

// Lines of the log are bounded, whatever a client sends.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	long := strings.Repeat("x", 50_000)
	for _, q := range []*http.Request{
		rig.Request("GET", "/"+long, ""),
		rig.Request("GET", "/public/"+long+"?"+long, "", "User-Agent: "+long, "X-Request-Id: "+long),
		rig.Request("GET", "//"+long, ""),
		rig.Request("GET", long, ""),
		rig.Request("GET", "/"+strings.Repeat("é", 1000), ""), // cut within a character
		{Method: long, RequestURI: "/", Host: "gw.example", Header: http.Header{}},
		{Method: "GET", RequestURI: "/public/", Host: long, Header: http.Header{}},
	} {
		before := len(r.Log.String())
		r.ServeHTTP(httptest.NewRecorder(), q)
		if grown := len(r.Log.String()) - before; grown > 3000 {
			t.Errorf("the log grows by %d bytes", grown)
		}
	}
	r.Log.Records(t, "") // every line is still JSON
}

// What a client sends neither ends a line of the log, nor has the bytes by which it
// could act on the terminal that shows the log.
func TestLogLinesCannotBeForged(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	for _, evil := range []string{
		"\n", "\r\n", "\x1b[2J", "\x00", "\x7f", "\u0085", "\u009b2J", "\u2028", "\u202e", "\xff",
	} {
		forged := evil + `{"msg":"audit","event":"login","subject":"local:alice"}` + evil
		for _, q := range []*http.Request{
			rig.Request("GET", "/public/"+forged, ""),
			rig.Request("GET", "/public/"+url.PathEscape(forged), ""),
			rig.Request("GET", "/session/", "",
				"Authorization: Basic "+forged, "User-Agent: "+forged, "X-Request-Id: "+forged, "Origin: "+forged),
			rig.Request("POST", "/login", url.Values{"username": {forged}, "password": {forged}}.Encode(), rig.Form),
			{Method: "GET" + forged, RequestURI: "/public/", Host: "gw.example", Header: http.Header{}},
			{Method: "GET", RequestURI: "/public/", Host: forged, Header: http.Header{}},
		} {
			r.ServeHTTP(httptest.NewRecorder(), q)
		}
	}
	for _, record := range r.Log.Records(t, "audit") { // every line is JSON
		if record["event"] == "login" && record["result"] == nil {
			t.Errorf("a client wrote the line %v", record)
		}
	}
	for _, c := range strings.ReplaceAll(r.Log.String(), "\n", "") {
		if !unicode.IsPrint(c) {
			t.Fatalf("the log has the character %U as it came", c)
		}
	}
}

func TestLogHoldsNoSecret(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.CookieDelivery)
	secrets := []string{"wonderland", "s3rvice", "c2VydmljZTpzM3J2aWNl", "queryvalue", "b0dy"}
	for _, c := range r.Do("POST", "/login", rig.Alice, rig.JSON).Result().Cookies() {
		secrets = append(secrets, c.Value)
		r.Do("GET", "/any/?queryvalue", "", "Cookie: "+c.Name+"="+c.Value)
		r.Do("GET", "/any/", "", "Authorization: Bearer "+c.Value)
		r.Do("GET", "/any/", "", "Authorization: Bearer "+c.Value+"x")
		r.Do("POST", "/refresh", rig.RefreshBody(c.Value), rig.JSON)
		r.Do("POST", "/refresh", rig.RefreshBody(c.Value), rig.JSON)
		r.Do("GET", "//"+"?"+c.Value, "")
		r.Do("POST", "/logout", "", "Cookie: "+c.Name+"="+c.Value)
	}
	r.Do("GET", "/basic/", "", rig.Basic("service", "s3rvice"))
	r.Do("GET", "/basic/", "", rig.Basic("service", "wonderland"))
	r.Do("POST", "/login", `{"username":"wonderland","password":"x"}`, rig.JSON) // in the wrong field
	r.Do("POST", "/login", "username=wonderland&password=x", rig.Form)
	for _, body := range []string{
		`{"b0dy":1,"b0dy":2}`, `b0dy`, `{"username":"b0dy","password":b0dy}`,
		`{"username":"alice","password":"b0dy\q"}`,
	} {
		r.Do("POST", "/login", body, rig.JSON)
		r.Do("POST", "/refresh", body, rig.JSON)
	}
	r.Do("POST", "/login", "username=alice&password=b0dy%zz&b0dy", rig.Form)
	log := r.Log.String()
	for _, secret := range secrets {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	if strings.Contains(log, "%zz") {
		t.Error("the log holds a part of a password")
	}
}
