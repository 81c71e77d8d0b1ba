"use strict";

const place = document.getElementById("swagger-ui");
SwaggerUIBundle({
  url: place.dataset.document,
  domNode: place,
  deepLinking: true,
  validatorUrl: null,
  /* Swagger UI gives the choice of the server no label. */
  onComplete: () => document.getElementById("servers")?.setAttribute("aria-label", "Server"),
  presets: [SwaggerUIBundle.presets.apis],
  /* An operation is a button. A link inside it, as Swagger UI has it, would be a second target for the keyboard. */
  plugins: [{ wrapComponents: { DeepLink: (_, system) => ({ text }) => system.React.createElement("span", null, text) } }],
});
