package oauth

import (
	"errors"
	"log/slog"
	"net/http"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/identity/clients"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/rate"
)

// maxRegistration is how large the metadata of a client may be, in bytes.
const maxRegistration = 16 << 10

// registration returns the row of oauth/register (RFC 7591).
func (s *programs) registration() endpoint.Row {
	row := forPrograms(registerPath, http.MethodPost, s.register)
	row.Enabled = func() error {
		if s.section.Registration != config.RegistrationOpen {
			return endpoint.NothingHere("oauth.registration is off")
		}
		return nil
	}
	return row
}

func (s *programs) register(ex *web.Exchange) error {
	if s.section.RegistrationRate.Requests > 0 { // 0: no limit
		if err := s.registrations.Take(&ex.Store, rate.ClientKey(ex.Peer.Client)); err != nil {
			return err
		}
	}
	if len(ex.Body) > maxRegistration {
		return &http.MaxBytesError{Limit: maxRegistration}
	}
	if ex.MediaType() != web.TypeJSON {
		return web.UnsupportedMedia(web.TypeJSON)
	}
	ctx, end := ex.Store.Recording()
	defer end()
	made, err := s.clients.Register(ctx, ex.Body)
	if wrong, ok := errors.AsType[*clients.RegistrationError](err); ok {
		return s.fail(ex, &refusal{wrong.Code, wrong.Description, nil})
	}
	if err != nil {
		return err
	}
	ex.Audit("client_registered", slog.String("client_id", made.ID))
	ex.JSON(web.TypeJSON, http.StatusCreated, made)
	return nil
}
