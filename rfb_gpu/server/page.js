import { connect } from "./widget.js";

connect(document.body);
