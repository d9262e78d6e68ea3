package audit

// Events returns the names of all events, sorted. A test compares them with those that the code records.
func Events() []string {
	return []string{
		"account_changed", "account_ended", continued, cut, lost, "backchannel_logout", "client_authorized",
		"client_refused", "client_registered", "client_rejected", "client_revoked", "credential_refused", "denied",
		"device_started", "factor_added", "factor_begun", "factor_removed", "frontchannel_logout", "invitation_used",
		"invited", "login", "login_ended_by_provider", "logout", "next_differs", "password_changed",
		"recovery_codes_replaced", "refresh", "reloaded", "reuse_detected", "role_ended", "session", "step_up",
		"stream_ended", "token_created", "token_issued", "token_revoked",
	}
}
