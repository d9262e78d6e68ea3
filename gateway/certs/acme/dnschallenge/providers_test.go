package dnschallenge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"authgate/internal/test/must"
)

// recordOf returns the record of a challenge for example.org.
func recordOf(token string) Record {
	c, value := challengeOf("example.org", token)
	return Record{Name: challengeName, Value: value, Domain: "example.org", Token: token, KeyAuth: c.KeyAuthorization}
}

// A program is called with its words. Its failure is told with its last complaint; what it
// leaves running holds nothing up.
func TestExec(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program := func(name, text string) Exec {
		path := filepath.Join(folder, name)
		must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
		return Exec{path}
	}
	good := program("good", `echo "$#" "$@" >>`+folder+"/calls\n")
	record := recordOf("token")
	must.Do(t, good.Add(t.Context(), record))
	must.Do(t, good.Remove(t.Context(), record))
	want := fmt.Sprintf("3 present %[1]s %[2]s\n3 cleanup %[1]s %[2]s\n", challengeName, record.Value)
	if got := string(must.Get(os.ReadFile(folder + "/calls"))(t)); got != want {
		t.Errorf("called with %q, want %q", got, want)
	}
	bad := program("bad", "echo first >&2; echo 'the zone is locked' >&2; exit 3\n")
	wantError(t, "a program that fails", bad.Add(t.Context(), record), "exit status 3: the zone is locked")
	wantError(t, "no program", Exec{folder + "/none"}.Add(t.Context(), record), "none")
	begun := folder + "/begun"
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for _, err := os.Stat(begun); err != nil && t.Context().Err() == nil; _, err = os.Stat(begun) {
			runtime.Gosched()
		}
	}()
	slow := program("slow", ": >"+begun+"\nexec sleep 3600\n")
	wantError(t, "a program that hangs", slow.Add(ctx, record), "killed")
}

// cloud is a fake of Cloudflare with one zone.
type cloud struct {
	t       *testing.T
	mu      sync.Mutex
	records map[string]string // contents by identifier
	lose    bool              // the answers to additions
	calls   []string
}

// ServeHTTP implements http.Handler.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := func(status int, result any, problems ...map[string]any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"success": status < 300, "errors": problems, "result": result})
	}
	c.calls = append(c.calls, r.Method+" "+r.URL.Path)
	const records = "/zones/Z1/dns_records"
	switch {
	case r.Header.Get("Authorization") != "Bearer right":
		text := "no such token: " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		answer(http.StatusForbidden, nil, map[string]any{"code": 9109, "message": text})
	case r.URL.Path == "/zones" && r.FormValue("name") == "example.org":
		answer(http.StatusOK, []map[string]string{{"id": "Z1", "name": "example.org"}})
	case r.Method == "POST" && r.URL.Path == records:
		var record struct{ Type, Name, Content string }
		must.Do(c.t, json.NewDecoder(r.Body).Decode(&record))
		if record.Type != "TXT" || record.Name+"." != challengeName {
			c.t.Errorf("adds %+v", record)
		}
		for _, content := range c.records {
			if content == record.Content {
				answer(http.StatusBadRequest, nil, map[string]any{"code": codeIdentical, "message": "identical"})
				return
			}
		}
		c.records[fmt.Sprint("R", len(c.calls))] = record.Content
		if c.lose {
			answer(http.StatusBadGateway, nil)
			return
		}
		answer(http.StatusOK, map[string]string{"id": "R"})
	case r.Method == "GET" && r.URL.Path == records && r.FormValue("name")+"." == challengeName:
		found := []map[string]string{}
		for id, content := range c.records {
			found = append(found, map[string]string{"id": id, "content": content})
		}
		answer(http.StatusOK, found)
	case r.Method == "DELETE":
		delete(c.records, strings.TrimPrefix(r.URL.Path, records+"/"))
		answer(http.StatusOK, nil)
	default:
		answer(http.StatusNotFound, nil)
	}
}

// At Cloudflare, the gateway's own record is added and removed, also if the answer to its
// addition was lost. A wrong token is told, and not shown.
func TestCloudflare(t *testing.T) {
	t.Parallel()
	s, c := startServer(t), &cloud{t: t, records: map[string]string{"R0": `"of another"`}}
	service := httptest.NewServer(c)
	defer service.Close()
	right := Cloudflare{service.URL, "right", NewResolvers([]string{s.address})}
	record := recordOf("token")
	must.Do(t, right.Add(t.Context(), record))
	must.Do(t, right.Add(t.Context(), record))
	if len(c.records) != 2 {
		t.Errorf("after both additions: %q", c.records)
	}
	must.Do(t, right.Remove(t.Context(), record))
	must.Do(t, right.Remove(t.Context(), record))
	c.lose = true
	err := right.Add(t.Context(), record)
	if wantError(t, "a lost answer", err, "502"); errors.Is(err, errNotAdded) || len(c.records) != 2 {
		t.Errorf("after a lost answer: %q, %v", c.records, err)
	}
	must.Do(t, right.Remove(t.Context(), record))
	if len(c.records) != 1 || c.records["R0"] == "" {
		t.Errorf("at the end: %q", c.records)
	}
	wrong := right
	wrong.Token = "not-the-token"
	err = Redacted(wrong, []string{wrong.Token}).Add(t.Context(), record)
	wantError(t, "a wrong token", err, "403", "no such token: [redacted] (9109)")
	if !errors.Is(err, errNotAdded) {
		t.Errorf("a wrong token may have added something: %v", err)
	}
}

// lego's providers share the resolvers of the process, so that these tests are one after another.
func TestLego(t *testing.T) {
	s := startServer(t)
	UseLego([]string{s.address}, slog.New(slog.DiscardHandler))
	t.Run("httpreq", func(t *testing.T) { testHTTPReq(t, s) })
	t.Run("acmedns", func(t *testing.T) { testACMEDNS(t) })
	t.Run("route53", func(t *testing.T) { testRoute53(t) })
}

func testHTTPReq(t *testing.T, s *server) {
	var got []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		var message struct{ FQDN, Value string }
		must.Do(t, json.NewDecoder(r.Body).Decode(&message))
		got = append(got, strings.Join([]string{r.Method, r.URL.Path, name, message.FQDN, message.Value}, " "))
		if password != "right" {
			http.Error(w, "wrong: "+password, http.StatusUnauthorized)
		}
	}))
	defer service.Close()
	record := recordOf("token")
	p := HTTPReq(service.URL+"/dns/", "gateway", "right")
	must.Do(t, p.Add(t.Context(), record))
	must.Do(t, p.Remove(t.Context(), record))
	for i, what := range []string{"present", "cleanup"} {
		if want := "POST /dns/" + what + " gateway " + challengeName + " " + record.Value; got[i] != want {
			t.Errorf("got %q, want %q", got[i], want)
		}
	}
	provider := Redacted(HTTPReq(service.URL, "gateway", "not-the-password"), []string{"not-the-password"})
	err := provider.Add(t.Context(), record)
	if wantError(t, "a wrong password", err, "401"); strings.Contains(err.Error(), "not-the-password") {
		t.Errorf("it shows the password: %v", err)
	}
	record.Name = "elsewhere.example.org." // where a CNAME record has led before
	before := len(got)
	wantError(t, "an alias that is gone", p.Remove(t.Context(), record), "elsewhere.example.org.")
	if len(got) != before {
		t.Error("another name is changed")
	}
}

func testACMEDNS(t *testing.T) {
	var got []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/register" {
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"username":"u","password":"p","fulldomain":"sub.acme.test",` +
				`"subdomain":"sub","allowfrom":[]}`))
			return
		}
		var update struct{ Subdomain, Txt string }
		must.Do(t, json.NewDecoder(r.Body).Decode(&update))
		got = append(got, r.Header.Get("X-Api-User")+" "+update.Subdomain+" "+update.Txt)
		_, _ = w.Write([]byte(`{"txt":"` + update.Txt + `"}`))
	}))
	defer service.Close()
	storage, record := filepath.Join(t.TempDir(), "accounts.json"), recordOf("token")
	err := Redacted(ACMEDNS(service.URL, storage), nil).Add(t.Context(), record)
	wantError(t, "a new account", err, challengeName+" CNAME sub.acme.test.")
	record.Name = "sub.acme.test."
	must.Do(t, ACMEDNS(service.URL, storage).Add(t.Context(), record))
	must.Do(t, ACMEDNS(service.URL, storage).Remove(t.Context(), record))
	if want := "u sub " + record.Value; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	must.Do(t, os.WriteFile(storage, []byte("{"), 0o600))
	wantError(t, "a broken file", ACMEDNS(service.URL, storage).Add(t.Context(), record), storage)
	if content := must.Get(os.ReadFile(storage))(t); string(content) != "{" {
		t.Errorf("the broken file is replaced by %q", content)
	}
}

// testRoute53: beside the record of another, the gateway's own is added and removed.
func testRoute53(t *testing.T) {
	const set = `<ListResourceRecordSetsResponse><ResourceRecordSets><ResourceRecordSet>` +
		`<Name>%s</Name><Type>TXT</Type><TTL>60</TTL><ResourceRecords>%s</ResourceRecords>` +
		`</ResourceRecordSet></ResourceRecordSets></ListResourceRecordSetsResponse>`
	const one = `<ResourceRecord><Value>&#34;%s&#34;</Value></ResourceRecord>`
	const info = `<ChangeInfo><Id>/change/C1</Id><Status>INSYNC</Status>` +
		`<SubmittedAt>2026-01-01T00:00:00Z</SubmittedAt></ChangeInfo>`
	record, present := recordOf("token"), fmt.Sprintf(one, "of-another")
	var changes []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		switch {
		case !strings.Contains(r.Header.Get("Authorization"), "Credential=AKID/"):
			w.WriteHeader(http.StatusForbidden)
		case r.Method == "GET" && strings.HasSuffix(r.URL.Path, "/change/C1"):
			_, _ = w.Write([]byte(`<GetChangeResponse>` + info + `</GetChangeResponse>`))
		case r.Method == "GET":
			fmt.Fprintf(w, set, challengeName, present)
		default:
			changes = append(changes, string(must.Get(io.ReadAll(r.Body))(t)))
			_, _ = w.Write([]byte(`<ChangeResourceRecordSetsResponse>` + info + `</ChangeResourceRecordSetsResponse>`))
		}
	}))
	defer service.Close()
	t.Setenv("AWS_ENDPOINT_URL_ROUTE_53", service.URL)
	p := Route53("AKID", "secret", "us-east-1", "Z1")
	must.Do(t, p.Add(t.Context(), record))
	present += fmt.Sprintf(one, record.Value)
	must.Do(t, p.Remove(t.Context(), record))
	for i, own := range []bool{true, false} {
		if change := changes[i]; !strings.Contains(change, "UPSERT") || !strings.Contains(change, "of-another") ||
			strings.Contains(change, record.Value) != own {
			t.Errorf("change %d is %s", i, change)
		}
	}
}
