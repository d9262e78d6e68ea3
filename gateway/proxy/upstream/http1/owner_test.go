package http1

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ntlm is an upstream that keeps the user by connection: the message that proves who it is comes once, and
// the sender of the next request on the connection is that user.
func ntlm(users *sync.Map) answerRaw {
	return func(connection, _ int64, r *http.Request, conn net.Conn) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		says, stays := "", !r.Close
		message, user, _ := strings.Cut(r.Header.Get("Authorization"), ":")
		if message == "NTLM type3" {
			users.Store(connection, user)
		}
		switch user, known := users.Load(connection); {
		case message == "NTLM type1":
			says = "HTTP/1.1 401 No\r\nWWW-Authenticate: NTLM challenge\r\nContent-Length: 0\r\n\r\n"
		case known:
			says = fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", header, len(user.(string)), user)
		default:
			says = "HTTP/1.1 401 No\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n"
		}
		_, err := io.WriteString(conn, says)
		return err == nil && stays
	}
}

// A connection on which somebody signed in with NTLM serves no other user, also without reuse of connections.
func TestOwner(t *testing.T) {
	t.Parallel()
	for _, noReuse := range []bool{false, true} {
		u := newRawUpstream(t, ntlm(new(sync.Map)))
		f := newFixture(t, u.url())
		f.noReuse = noReuse
		alice, bob := new(Owner), new(Owner)
		defer alice.Close()
		defer bob.Close()
		ask := func(owner *Owner, method, authorization, body string) string {
			t.Helper()
			var content io.Reader
			if body != "" {
				content = strings.NewReader(body)
			}
			r := newRequest(t, t.Context(), method, f.url, content)
			if owner != nil {
				r = r.WithContext(WithOwner(r.Context(), owner))
			}
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
			response, err := f.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			f.haveRested()
			said, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return string(said)
		}
		for _, step := range []struct {
			owner                              *Owner
			method, authorization, body, wants string
		}{
			{alice, "GET", "", "", ""},
			{alice, "GET", "NTLM type1", "", ""},
			{bob, "GET", "", "", ""},
			{nil, "GET", "", "", ""},
			{alice, "GET", "NTLM type3:alice", "", "alice"},
			{bob, "GET", "", "", ""},
			{nil, "GET", "", "", ""},
			{alice, "GET", "", "", "alice"},
			{alice, "POST", "", "body", "alice"},
			{bob, "POST", "NTLM type1", "body", ""},
			{bob, "POST", "NTLM type3:bob", "body", "bob"},
			{nil, "POST", "", "body", ""},
			{alice, "GET", "", "", "alice"},
			{bob, "GET", "", "", "bob"},
			{alice, "PROPFIND", "", "body", "alice"}, // and the connection is closed, because the body may be a request
			{alice, "GET", "", "", ""},
			{nil, "GET", "NTLM type3:eve", "", "eve"}, // on a connection of its own
			{nil, "GET", "", "", ""},
		} {
			if said := ask(step.owner, step.method, step.authorization, step.body); said != step.wants {
				t.Errorf("no reuse %t: %s %q is answered as %q, want %q",
					noReuse, step.method, step.authorization, said, step.wants)
			}
		}
		if !bob.Owns() {
			t.Errorf("no reuse %t: bob's connection is gone", noReuse)
		}
		bob.Close()
		if said := ask(bob, "GET", "", ""); said != "" || bob.Owns() {
			t.Errorf("no reuse %t: after the end of bob's connection the answer is for %q", noReuse, said)
		}
	}
}

// An upload may give the owner's connection back while the next request has begun: after that request has seen that
// there is none, and before it takes one. It stays the owner's.
func TestOwnerLate(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, ntlm(new(sync.Map)))
	f := newFixture(t, u.url())
	owner := new(Owner)
	defer owner.Close()
	ask := func(ctx context.Context, authorization string, body io.Reader) string {
		t.Helper()
		r := newRequest(t, ctx, "POST", f.url, body)
		r.ContentLength = 1
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		response, err := f.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		said, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(said)
	}
	ofOwner := WithOwner(t.Context(), owner)
	if said := ask(ofOwner, "NTLM type3:alice", strings.NewReader("x")); said != "alice" {
		t.Fatalf("%q", said)
	}
	address := u.listener.Addr().String()
	signedIn := owner.take(f.Client, address)
	comesBack := readerFunc(func([]byte) (int, error) {
		owner.put(f.Client, signedIn)
		return 0, io.EOF
	})
	ask(ofOwner, "", io.MultiReader(comesBack, strings.NewReader("x")))
	if said := ask(t.Context(), "", strings.NewReader("x")); said != "" {
		t.Errorf("somebody else is answered as %q", said)
	}
	if said := ask(ofOwner, "", strings.NewReader("x")); said != "alice" {
		t.Errorf("the owner is answered as %q", said)
	}
}

// readerFunc is a reader that calls itself.
type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestWithoutNegotiate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		offers []string
		kept   []string
		speaks bool
	}{
		{nil, nil, false},
		{[]string{"Basic realm=\"x\""}, []string{"Basic realm=\"x\""}, false},
		{[]string{"NTLM"}, nil, true},
		{[]string{"Negotiate oYG2MIG="}, nil, true},
		{[]string{"negotiate", "ntlm", "Basic realm=\"NTLM, Negotiate\""}, []string{"Basic realm=\"NTLM, Negotiate\""}, true},
		{[]string{"Negotiate, NTLM, Basic realm=\"x\", charset=\"UTF-8\", Digest realm=\"y\", nonce=z"},
			[]string{"Basic realm=\"x\", charset=\"UTF-8\", Digest realm=\"y\", nonce=z"}, true},
		{[]string{"Bearer realm = \"a\\\", NTLM\" , error=x,\tNTLM , Basic realm=\"b\""},
			[]string{"Bearer realm = \"a\\\", NTLM\", error=x, Basic realm=\"b\""}, true},
		{[]string{"Negotiation x"}, []string{"Negotiation x"}, false},
		{[]string{"Basic realm=\"open"}, []string{"Basic realm=\"open"}, false},
	} {
		if kept := WithoutNegotiate(c.offers); !slices.Equal(kept, c.kept) {
			t.Errorf("of %q %q is kept, want %q", c.offers, kept, c.kept)
		}
		if speaks := Negotiates(c.offers); speaks != c.speaks {
			t.Errorf("%q authenticates the connection: %t", c.offers, speaks)
		}
	}
}
