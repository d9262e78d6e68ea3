package dnschallenge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/log"
	"github.com/go-acme/lego/v5/providers/dns/acmedns"
	"github.com/go-acme/lego/v5/providers/dns/httpreq"
	"github.com/go-acme/lego/v5/providers/dns/route53"
)

// UseLego makes lego's providers ask these resolvers, and log at level debug to logger.
// They have one of both for the whole process.
func UseLego(resolvers []string, logger *slog.Logger) {
	options := dns01.NewOptions()
	options.RecursiveNameservers = resolvers
	dns01.SetDefaultClient(dns01.NewClient(options))
	log.SetDefault(slog.New(quiet{logger.Handler()}))
}

// quiet is a handler for lines that are of interest only where others do not suffice.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, record)
}

// lego is one of lego's providers. It is made when it is used, since that may fail.
type lego struct {
	provider func() (challenge.Provider, error)
	aliased  bool // it follows CNAME records by itself
}

// Add implements Provider.
func (p lego) Add(ctx context.Context, record Record) error {
	provider, err := p.ready(ctx, record)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAdded, err)
	}
	return provider.Present(ctx, record.Domain, record.Token, record.KeyAuth)
}

// Remove implements Provider.
func (p lego) Remove(ctx context.Context, record Record) error {
	provider, err := p.ready(ctx, record)
	if err != nil {
		return err
	}
	return provider.CleanUp(ctx, record.Domain, record.Token, record.KeyAuth)
}

// ready returns the provider. Since lego takes a CNAME record that it cannot read for none, it
// returns an error if lego would change another name now.
func (p lego) ready(ctx context.Context, record Record) (challenge.Provider, error) {
	provider, err := p.provider()
	if err != nil || !p.aliased {
		return provider, err
	}
	name := dns01.GetChallengeInfo(ctx, record.Domain, record.KeyAuth).EffectiveFQDN
	if !strings.EqualFold(name, record.Name) {
		return nil, fmt.Errorf("the record belongs to %s, to which no CNAME record leads now", record.Name)
	}
	return provider, nil
}

// Propagation of lego's providers is waited for here; these bound their other waits.
const (
	legoTimeout  = time.Minute
	legoInterval = 2 * time.Second
	legoRetries  = 3
)

// Route53 returns the provider for zones at Amazon Route 53. An empty zone is looked up.
func Route53(keyID, secret, region, zone string) Provider {
	return lego{sync.OnceValues(func() (challenge.Provider, error) {
		return route53.NewDNSProviderConfig(&route53.Config{
			AccessKeyID: keyID, SecretAccessKey: secret, Region: region, HostedZoneID: zone, MaxRetries: legoRetries,
			WaitForRecordSetsChanged: true, TTL: ttl, PropagationTimeout: legoTimeout, PollingInterval: legoInterval,
		})
	}), true}
}

// ACMEDNS returns the provider for a service acme-dns. It keeps its accounts in the file at
// storage. Such a service has two records for each name and replaces the older one; none can be
// removed.
func ACMEDNS(service, storage string) Provider {
	return &serial{lego: lego{func() (challenge.Provider, error) {
		if err := checkAccounts(storage); err != nil {
			return nil, err
		}
		return acmedns.NewDNSProviderConfig(&acmedns.Config{APIBase: service, StoragePath: storage})
	}, false}}
}

// checkAccounts returns an error if lego would take a file for an empty one, and replace it.
func checkAccounts(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var accounts map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(content, &accounts)
	}
	if err != nil {
		return fmt.Errorf("the accounts in %s cannot be read: %w", path, err)
	}
	return nil
}

// serial makes one call at a time: lego's accounts are not safe for concurrent use.
type serial struct {
	lego
	mu sync.Mutex
}

// Add implements Provider.
func (p *serial) Add(ctx context.Context, record Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lego.Add(ctx, record)
}

// HTTPReq returns the provider for a service with lego's protocol.
func HTTPReq(service, username, password string) Provider {
	return lego{sync.OnceValues(func() (challenge.Provider, error) {
		endpoint, err := url.Parse(service)
		if err != nil {
			return nil, err
		}
		return httpreq.NewDNSProviderConfig(&httpreq.Config{
			Endpoint: endpoint, Username: username, Password: password, HTTPClient: &http.Client{Timeout: legoTimeout},
		})
	}), true}
}
