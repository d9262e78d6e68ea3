// Passkeys. A form with data-passkey="create" or data-passkey="get" is hidden until this
// script shows it, in browsers that know passkeys. When it is submitted, the script fetches
// options from data-options, asks the authenticator, and sends the form with its answer in the
// field "credential". What the server gives and takes is the JSON of WebAuthn Level 3, which
// older browsers cannot read and write by themselves.
(() => {
  if (!window.PublicKeyCredential || !navigator.credentials || !window.fetch) {
    return;
  }

  const bytes = (text) =>
    Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const listed = (list) => (list || []).map((c) => ({ ...c, id: bytes(c.id) }));

  function creation(json) {
    if (PublicKeyCredential.parseCreationOptionsFromJSON) {
      return PublicKeyCredential.parseCreationOptionsFromJSON(json);
    }
    return {
      ...json,
      challenge: bytes(json.challenge),
      user: { ...json.user, id: bytes(json.user.id) },
      excludeCredentials: listed(json.excludeCredentials),
    };
  }

  function request(json) {
    if (PublicKeyCredential.parseRequestOptionsFromJSON) {
      return PublicKeyCredential.parseRequestOptionsFromJSON(json);
    }
    return { ...json, challenge: bytes(json.challenge), allowCredentials: listed(json.allowCredentials) };
  }

  function answer(credential) {
    if (credential.toJSON) {
      return credential.toJSON();
    }
    const json = {
      id: credential.id,
      rawId: text(credential.rawId),
      type: credential.type,
      clientExtensionResults: credential.getClientExtensionResults(),
      response: {},
    };
    if (credential.authenticatorAttachment) {
      json.authenticatorAttachment = credential.authenticatorAttachment;
    }
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) {
        json.response[name] = text(credential.response[name]);
      }
    }
    if (credential.response.getTransports) {
      json.response.transports = credential.response.getTransports();
    }
    return json;
  }

  async function options(form) {
    const headers = { "Content-Type": "application/json", Accept: "application/json" };
    const token = form.elements.namedItem("csrf_token");
    if (token) {
      headers["X-CSRF-Token"] = token.value;
    }
    const response = await fetch(form.dataset.options, { method: "POST", headers, body: "{}" });
    if (!response.ok) {
      return null;
    }
    return response.json();
  }

  async function send(form) {
    const json = await options(form);
    if (!json) { // the page of the answer says why, or leads on
      form.submit();
      return;
    }
    finish(form, form.dataset.passkey === "create"
      ? await navigator.credentials.create({ publicKey: creation(json) })
      : await navigator.credentials.get({ publicKey: request(json) }));
  }

  function finish(form, credential) {
    const remember = form.elements.namedItem("remember");
    const ticked = document.querySelector("input[type=checkbox][name=remember]");
    if (remember && ticked) {
      remember.value = String(ticked.checked);
    }
    form.elements.namedItem("credential").value = JSON.stringify(answer(credential));
    form.submit();
  }

  // A browser that can offers the passkeys among what it fills in. It waits for that until
  // the button is used instead.
  let waiting = null;

  async function offer(form) {
    const available = PublicKeyCredential.isConditionalMediationAvailable;
    if (!available || !(await PublicKeyCredential.isConditionalMediationAvailable())) {
      return;
    }
    const json = await options(form);
    if (!json) {
      return;
    }
    waiting = new AbortController();
    const ask = { publicKey: request(json), mediation: "conditional", signal: waiting.signal };
    finish(form, await navigator.credentials.get(ask));
  }

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const failed = form.querySelector("[data-failed]");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      failed.hidden = true;
      if (waiting) {
        waiting.abort();
      }
      send(form).catch(() => { failed.hidden = false; });
    });
    form.closest("[data-passkeys]").hidden = false;
    if ("autofill" in form.dataset) {
      offer(form).catch(() => {}); // the button is there
    }
  }
})();
