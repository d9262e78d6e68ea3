package acme

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
)

// orderTime is how long the fake authority takes for an order.
const orderTime = 5 * time.Second

// issuedFor is how long certificates of issuing are valid: short, because the storage is looked
// through every few minutes meanwhile.
const issuedFor = 9 * day

// issuing is an authority that issues what it is asked for, unless fail returns an
// error.
type issuing struct {
	*certmagic.ACMEIssuer
	orders atomic.Int32
	fail   func() error
}

func (i *issuing) PreCheck(context.Context, []string, bool) error { return nil }

func (i *issuing) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.orders.Add(1)
	if pause(ctx, orderTime); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if i.fail != nil {
		if err := i.fail(); err != nil {
			return nil, err
		}
	}
	signer := issue("authority.example", 0, 90*day)
	block, _ := pem.Decode(signer.key)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: csr.DNSNames,
		NotBefore: time.Now(), NotAfter: time.Now().Add(issuedFor),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, signer.leaf, csr.PublicKey,
		must(x509.ParsePKCS8PrivateKey(block.Bytes))))
	return &certmagic.IssuedCertificate{
		Certificate: bytes.Repeat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 2),
	}, nil
}

// demanding is a rig whose clients ask for names below "*.apps.example".
type demanding struct {
	*rig
	issuer *issuing
	parent string // of the names, of this test run alone
	permit atomic.Bool
}

func onDemandBubble(t *testing.T, bounds OnDemand, test func(t *testing.T, r *demanding)) {
	t.Helper()
	inBubble(t, func(t *testing.T, r *rig) {
		d := &demanding{rig: r, parent: newName()}
		d.permit.Store(true)
		r.onDemand = bounds
		r.onDemand.Permits = func(name string) bool {
			_, parent, _ := strings.Cut(name, ".")
			return d.permit.Load() && parent == d.parent
		}
		r.keep(t, 0, 90*day)
		r.open(t)
		d.issuer = &issuing{ACMEIssuer: r.Manager.issuer}
		for _, config := range []*certmagic.Config{r.config, r.unrelated.config, r.demand.config} {
			config.Issuers = []certmagic.Issuer{d.issuer}
		}
		test(t, d)
	})
}

// asks returns what a client is shown that asks for a label below the parent.
func (d *demanding) asks(label string) (*x509.Certificate, error) {
	return d.handshake(label+"."+d.parent, "h2")
}

// gets fails the test unless clients get certificates for these labels.
func (d *demanding) gets(t *testing.T, labels ...string) (last *x509.Certificate) {
	t.Helper()
	for _, label := range labels {
		got, err := d.asks(label)
		if err != nil || got.VerifyHostname(label+"."+d.parent) != nil {
			t.Fatalf("%s: %v\n%s", label, err, &d.log)
		}
		last = got
	}
	return last
}

// refused fails the test unless a client gets no certificate at once, for a reason.
func (d *demanding) refused(t *testing.T, label string, why error) {
	t.Helper()
	before, began := d.issuer.orders.Load(), time.Now()
	if got, err := d.asks(label); err == nil || !strings.Contains(err.Error(), why.Error()) ||
		time.Since(began) > 0 || d.issuer.orders.Load() != before {
		t.Fatalf("%s: %v, %v after %v, and %d orders; want %v\n%s",
			label, got, err, time.Since(began), d.issuer.orders.Load()-before, why, &d.log)
	}
}

func (d *demanding) ordered(t *testing.T, want int32) {
	t.Helper()
	if got := d.issuer.orders.Load(); got != want {
		t.Fatalf("%d orders, want %d\n%s", got, want, &d.log)
	}
}

var generous = OnDemand{Names: 100, Burst: 100, Every: time.Second}

// The first client that asks for a permitted name waits for its certificate, and
// those that ask at the same time wait with it. Other names cause no order and no
// call of the store.
func TestOnDemand(t *testing.T) {
	onDemandBubble(t, generous, func(t *testing.T, r *demanding) {
		var clients sync.WaitGroup
		began := time.Now()
		for range 10 {
			clients.Go(func() {
				if got, err := r.asks("a"); err != nil || got.VerifyHostname("a."+r.parent) != nil {
					t.Errorf("a: %v", err)
				}
			})
		}
		clients.Wait()
		if took := time.Since(began); took != orderTime {
			t.Errorf("it took %v", took)
		}
		r.ordered(t, 1)
		a := r.gets(t, "a", "A")
		if again := r.gets(t, "a"); !again.Equal(a) {
			t.Error("the certificate changes")
		}
		r.ordered(t, 1)
		for _, name := range []string{
			r.parent, "b.c." + r.parent, "unknown.example", "a_b." + r.parent, "-a." + r.parent,
			strings.Repeat("a", 64) + "." + r.parent,
		} {
			r.wantCalls(t, name, 0, func() {
				if got, err := r.handshake(name, "h2"); err == nil && got.VerifyHostname(r.name) != nil {
					t.Errorf("%s: %v", name, got.DNSNames)
				}
			})
		}
		if got, err := r.handshake("unknown.example", Protocol); err == nil {
			t.Errorf("a challenge for another name: %v", got.DNSNames)
		}
		r.ordered(t, 1)
		if all := r.Certificates(); len(all) != 1 {
			t.Errorf("what clients chose is among %+v", all)
		}
	})
}

// Challenges for permitted names are answered, also those that another instance has
// begun.
func TestOnDemandChallenge(t *testing.T) {
	onDemandBubble(t, generous, func(t *testing.T, r *demanding) {
		name := "a." + r.parent
		begin(t, r.storage, "tls-alpn-01", name)
		if got, err := r.handshake(name, Protocol); err != nil || got.VerifyHostname(name) != nil {
			t.Errorf("%v", err)
		}
		begin(t, r.storage, "http-01", name)
		ask := func() bool {
			request := httptest.NewRequest("GET", "http://"+strings.ToUpper(name)+":80/.well-known/acme-challenge/token", nil)
			return r.AnswerChallenge(httptest.NewRecorder(), request)
		}
		if !ask() || r.demand.decide(t.Context(), name) != nil {
			t.Error("a challenge over HTTP is not answered, or the name may not be renewed")
		}
		r.permit.Store(false)
		if got, err := r.handshake(name, Protocol); err == nil {
			t.Errorf("when the name is not permitted any more: %v", got.DNSNames)
		}
		if ask() || r.demand.decide(t.Context(), name) == nil {
			t.Error("when the name is not permitted any more, a challenge over HTTP is answered, or it may be renewed")
		}
		r.ordered(t, 0)
	})
}

// Orders are bounded in time. Certificates that are in the storage are no orders.
func TestOnDemandOrders(t *testing.T) {
	onDemandBubble(t, OnDemand{Names: 100, Burst: 2, Every: time.Hour}, func(t *testing.T, r *demanding) {
		r.gets(t, "a", "b")
		r.refused(t, "c", errTooManyOrders)
		r.refused(t, "c", errTooManyOrders)
		stored := "stored." + r.parent
		keep(t, r.storage, stored, issue(stored, 0, 90*day))
		r.gets(t, "a", "b", "stored")
		time.Sleep(time.Hour)
		r.gets(t, "c")
		r.refused(t, "d", errTooManyOrders)
		r.ordered(t, 3)
		if n := strings.Count(r.log.String(), errTooManyOrders.Error()); n != 2 {
			t.Errorf("it was logged %d times", n)
		}
	})
}

// There are so many names at once. Those whose certificate has expired make room.
func TestOnDemandNames(t *testing.T) {
	onDemandBubble(t, OnDemand{Names: 2, Burst: 100, Every: time.Second}, func(t *testing.T, r *demanding) {
		r.gets(t, "a", "b")
		r.wantCalls(t, "a third name", 0, func() { r.refused(t, "c", errTooManyNames) })
		r.gets(t, "a", "b")
		time.Sleep(issuedFor * 2 / 3) // b is not visited any more
		r.gets(t, "a")
		synctest.Wait()
		time.Sleep(issuedFor/3 + 2*time.Hour)
		r.gets(t, "c")
		r.refused(t, "d", errTooManyNames)
	})
}

// The storage is not asked for more names than it can bear.
func TestOnDemandLooks(t *testing.T) {
	onDemandBubble(t, OnDemand{Names: 10 * lookupBurst, Burst: 1, Every: time.Hour}, func(t *testing.T, r *demanding) {
		r.gets(t, "a")
		for i := range lookupBurst {
			_, _ = r.asks(fmt.Sprint("random-", i)) // all are refused
		}
		r.wantCalls(t, "one more", 0, func() { r.refused(t, "b", errTooManyAsk) })
		if n := len(r.demand.names); n != 1 {
			t.Errorf("%d names are kept", n)
		}
	})
}

// After a failed order the name is not ordered for an hour. A store that is down is
// asked again at once.
func TestOnDemandFails(t *testing.T) {
	onDemandBubble(t, generous, func(t *testing.T, r *demanding) {
		r.issuer.fail = func() error { return errors.New("no such zone") }
		if _, err := r.asks("a"); err == nil || !strings.Contains(err.Error(), "no such zone") {
			t.Fatalf("a: %v", err)
		}
		r.ordered(t, 1)
		r.issuer.fail = nil
		time.Sleep(refusedAfter - time.Second)
		r.refused(t, "a", errors.New("no such zone"))
		time.Sleep(time.Second)
		r.gets(t, "a")
		r.ordered(t, 2)
		r.spy.fail(always)
		r.refused(t, "b", errDown)
		r.spy.fail(nil)
		r.gets(t, "b")
		if r.gets(t, "a"); strings.Count(r.log.String(), "it is not ordered again for an hour") != 1 {
			t.Errorf("logged: %s", &r.log)
		}
	})
}

// A client that asks for a certificate that is near its end causes its renewal, as long
// as the name is permitted.
func TestOnDemandRenews(t *testing.T) {
	onDemandBubble(t, OnDemand{Names: 100, Burst: 1, Every: 1000 * day}, func(t *testing.T, r *demanding) {
		first := r.gets(t, "a")
		time.Sleep(issuedFor*2/3 - 2*time.Hour)
		r.ordered(t, 1)
		time.Sleep(4 * time.Hour)
		if got := r.gets(t, "a"); !got.Equal(first) {
			t.Error("the client waits for the renewal")
		}
		time.Sleep(2 * orderTime)
		second := r.gets(t, "a")
		if second.Equal(first) {
			t.Errorf("it is not renewed\n%s", &r.log)
		}
		r.permit.Store(false)
		time.Sleep(issuedFor*2/3 + 2*time.Hour)
		before := r.issuer.orders.Load()
		_, _ = r.asks("a") // the other certificate, or the old one
		time.Sleep(2 * orderTime)
		if got := r.issuer.orders.Load(); got > before {
			t.Errorf("%d orders after the name is not permitted any more", got-before)
		}
	})
}

// A client does not wait for long, and the order goes on. Close ends it.
func TestOnDemandPatience(t *testing.T) {
	onDemandBubble(t, generous, func(t *testing.T, r *demanding) {
		r.issuer.fail = func() error { time.Sleep(time.Minute); return nil }
		began := time.Now()
		if _, err := r.asks("a"); err == nil || time.Since(began) != patience {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(time.Minute)
		r.gets(t, "a")
		r.ordered(t, 1)
		r.issuer.fail = nil
		go func() { _, _ = r.asks("b") }() // it fails
		synctest.Wait()
		began = time.Now()
		if r.Close(); time.Since(began) >= orderTime {
			t.Errorf("Close takes %v", time.Since(began))
		}
		wantTry(t, r.storage, "issue_cert_b."+r.parent, true)
	})
}

// A certificate whose key is another one is replaced by a new one.
func TestOnDemandMends(t *testing.T) {
	onDemandBubble(t, generous, func(t *testing.T, r *demanding) {
		name := "a." + r.parent
		keep(t, r.storage, name, issue(name, 0, 90*day))
		put(t, r.storage, certmagic.StorageKeys.SitePrivateKey(issuerKey(), name), string(issue(name, 0, day).key))
		if _, err := r.asks("a"); err == nil || !strings.Contains(err.Error(), errNotYet.Error()) {
			t.Errorf("%v", err)
		}
		time.Sleep(2 * orderTime)
		r.gets(t, "a")
		r.ordered(t, 1)
	})
}
