package dnschallenge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// CloudflareAPI is the address of Cloudflare's interface.
const CloudflareAPI = "https://api.cloudflare.com/client/v4"

// Cloudflare changes a zone at Cloudflare. It finds a record by its content, so that it can
// remove one whose identifier it does not know: after a restart, or if the answer to its
// addition was lost.
type Cloudflare struct {
	API       string // CloudflareAPI, except in tests
	Token     string
	Resolvers *resolvers
}

const (
	// cloudflareTime bounds one request.
	cloudflareTime = 30 * time.Second
	// maxAnswer is how large an answer may be, in bytes.
	maxAnswer = 1 << 20
	// codeIdentical is the error of a record that exists already.
	codeIdentical = 81058
)

// Add implements Provider.
func (p Cloudflare) Add(ctx context.Context, record Record) error {
	records, err := p.records(ctx, record)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAdded, err)
	}
	err = p.call(ctx, "POST", records, map[string]any{
		"type": "TXT", "name": strings.TrimSuffix(record.Name, "."), "content": quoted(record.Value), "ttl": ttl,
	}, nil)
	answer, answered := errors.AsType[*cloudflareError](err)
	switch {
	case answered && answer.has(codeIdentical):
		return nil
	case answered && answer.status < http.StatusInternalServerError:
		return fmt.Errorf("%w: %w", errNotAdded, err)
	}
	return err
}

// Remove implements Provider.
func (p Cloudflare) Remove(ctx context.Context, record Record) error {
	records, err := p.records(ctx, record)
	if err != nil {
		return err
	}
	var found []struct{ ID, Content string }
	query := url.Values{"type": {"TXT"}, "name": {strings.TrimSuffix(record.Name, ".")}, "per_page": {"100"}}
	if err := p.call(ctx, "GET", records+"?"+query.Encode(), nil, &found); err != nil {
		return err
	}
	for _, one := range found {
		if one.Content == quoted(record.Value) || one.Content == record.Value {
			if err := p.call(ctx, "DELETE", records+"/"+url.PathEscape(one.ID), nil, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// quoted returns a value as the content of a TXT record.
func quoted(value string) string { return `"` + value + `"` }

// records returns the path of the records of a record's zone.
func (p Cloudflare) records(ctx context.Context, record Record) (string, error) {
	zone, err := p.Resolvers.Zone(ctx, record.Name)
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(zone, ".")
	var zones []struct{ ID string }
	if err := p.call(ctx, "GET", "/zones?"+url.Values{"name": {name}}.Encode(), nil, &zones); err != nil {
		return "", err
	}
	if len(zones) != 1 {
		return "", fmt.Errorf("the token sees %d zones %s at Cloudflare, and needs one", len(zones), name)
	}
	return "/zones/" + url.PathEscape(zones[0].ID) + "/dns_records", nil
}

// cloudflareError is an answer that reports a failure.
type cloudflareError struct {
	status int
	errors []cloudflareProblem
}

type cloudflareProblem struct {
	Code    int
	Message string
}

func (e *cloudflareError) Error() string {
	text := fmt.Sprintf("Cloudflare answers %d", e.status)
	for _, one := range e.errors {
		text += fmt.Sprintf(", %s (%d)", one.Message, one.Code)
	}
	return text
}

func (e *cloudflareError) has(code int) bool {
	return slices.ContainsFunc(e.errors, func(p cloudflareProblem) bool { return p.Code == code })
}

// call sends a request and reads the result of its answer into result, unless that is nil.
func (p Cloudflare) call(ctx context.Context, method, path string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, cloudflareTime)
	defer cancel()
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, p.API+path, &sent)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+p.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Success bool
		Errors  []cloudflareProblem
		Result  json.RawMessage
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer)
	if response.StatusCode >= http.StatusMultipleChoices || err == nil && !answer.Success {
		return &cloudflareError{response.StatusCode, answer.Errors}
	}
	if err == nil && result != nil {
		err = json.Unmarshal(answer.Result, result)
	}
	if err != nil {
		return fmt.Errorf("the answer of Cloudflare cannot be read: %w", err)
	}
	return nil
}
